# A recipe for Spack: copy it to packages/foretrain/package.py of a repository of recipes.  Not tried.
from spack.package import *


class Foretrain(MesonPackage):
    """Predicts how long distributed training of neural networks takes, and runs the same schedule."""

    license("Apache-2.0")
    version("0.1.0")  # of a release's tarball, beside its sha256

    variant("simgrid", default=True, description="simulate message by message")
    variant("mpi", default=True, description="train on several ranks")
    variant("gsl", default=True, description="calibrate, and fits of imported times")
    variant("onednn", default=True, description="train fast on CPUs")
    variant("cuda", default=False, description="train on GPUs")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+simgrid")
    depends_on("pkgconfig", type="build")
    depends_on("scdoc", type="build")
    depends_on("python@3.9:", type=("build", "run"))
    for library in ("libfyaml", "jansson", "libmd", "zlib-api", "jpeg", "libpng", "libwebp", "xxhash", "hwloc"):
        depends_on(library)
    for part in ("simgrid", "mpi", "gsl", "onednn", "cuda"):
        depends_on(part, when=f"+{part}")
    depends_on("cudnn@9:", when="+cuda")
    depends_on("nccl", when="+cuda")

    def meson_args(self):
        parts = ("simgrid", "mpi", "gsl", "onednn", "cuda")
        return ["-Dwasm=disabled"] + [f"-D{part}={'enabled' if f'+{part}' in self.spec else 'disabled'}" for part in parts]
