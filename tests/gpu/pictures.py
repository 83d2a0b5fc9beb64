"""Pictures that the device crops, against the CPU's."""
from report import Outcome

CROPPED = 0.01  # levels of 255: sums of the filter are rounded in another order
PROGRAM = "tests/gpu/input_check"


def judge(said):
    """The verdict on what input_check printed."""
    good = all(way["labels"] and way["worst"] <= CROPPED for way in said["ways"])
    figure = ", ".join(f"{way['name']} {way['images_per_s']:.0f} images/s, "
                       f"{way['mean']:.2g} levels from the CPU's" for way in said["ways"])
    return Outcome("pass" if good else "fail", figure, f"{CROPPED} levels at worst", said)
