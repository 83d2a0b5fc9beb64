"""Pictures that the device crops, and JPEG files that it decodes, against the CPU."""
from report import Outcome, Skip

# Levels of 255.  Sums of the filter are rounded in another order; decoders differ in how they
# interpolate colour and round.
CROPPED, DECODED = 0.01, 2.0
PROGRAM = "tests/gpu/input_check"


def judge(said):
    """The verdict on what input_check printed."""
    ways = {way["name"]: way for way in said["ways"]}
    good = all(way["labels"] for way in said["ways"])
    for name, way in ways.items():
        good &= way["mean"] <= DECODED if name == "device" else way["worst"] <= CROPPED
    figure = ", ".join(
        f"{name} {way['images_per_s']:.0f} images/s, {way['mean']:.2g} levels from the CPU's"
        for name, way in ways.items())
    limit = f"{CROPPED} levels at worst; decoded by the device {DECODED} on average"
    if good and not said["decoder"]:
        raise Skip(f"nvJPEG is not installed; {figure}")
    return Outcome("pass" if good else "fail", f"{figure} ({said['decoder']})", limit, said)
