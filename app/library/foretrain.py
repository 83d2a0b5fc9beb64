"""Predictions of distributed training jobs, by libforetrain.

    import foretrain
    foretrain.predict("job.yaml", nodes=64)["step_s"]
    foretrain.predict("job.yaml", backend="sim")          # by foretrain-sim
    foretrain.predict("job.yaml", text="version: 1 ...")  # of memory; what it names is on disk
    foretrain.predict("job", files={"job": "version: 1 ...", "mine": "version: 1 ..."})
"""
import ctypes as c
import json
import os
import pathlib
import subprocess

API = 1  # of foretrain.h
SHORT = {"nodes": "cluster.nodes", "platform": "cluster.platform", "software": "cluster.software",
         "batch": "training.phases[*].batch_per_device", "algorithm": "allreduce.algorithm"}


class Error(Exception):
    """Why there is no answer; `code` is what foretrain would exit with."""

    def __init__(self, text, code):
        super().__init__(text)
        self.code = code


class _Error(c.Structure):
    _fields_ = [("code", c.c_int), ("text", c.c_char_p)]


_OPEN = c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_char_p, c.POINTER(c.c_size_t))
_RUN = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_char_p, c.POINTER(c.c_void_p), c.POINTER(_Error))


class _Simulator(c.Structure):
    _fields_ = [("run", _RUN), ("context", c.c_void_p), ("grain", c.c_char_p)]


def _find():
    """The library: of a build, beside this module, or installed with it."""
    for folder in pathlib.Path(__file__).resolve().parents:
        for pattern in ("libforetrain.so.0", "build/libforetrain.so.0", "*/libforetrain.so.0"):
            for path in sorted(folder.glob(pattern)):
                return path
    return pathlib.Path("libforetrain.so.0")


_PATH = pathlib.Path(os.environ.get("FORETRAIN_LIBRARY") or _find())
_LIBRARY = c.CDLL(str(_PATH))
if _LIBRARY.foretrain_api() != API:
    raise ImportError(f"{_PATH} is of another version of foretrain than this module")
for _name, _result, _words in (
        ("version", c.c_char_p, []), ("job_open", c.c_void_p, [c.c_char_p]),
        ("job_open_text", c.c_void_p, [c.c_char_p, c.c_char_p]),
        ("job_open_with", c.c_void_p, [c.c_char_p, _OPEN, c.c_void_p]),
        ("job_set", None, [c.c_void_p, c.c_char_p]), ("job_free", None, [c.c_void_p]),
        ("predict", c.c_void_p, [c.c_void_p, c.POINTER(_Simulator), c.POINTER(_Error)]),
        ("answer_json", c.c_char_p, [c.c_void_p]), ("answer_free", None, [c.c_void_p]),
        ("answer_steps", c.POINTER(c.c_double), [c.c_void_p, c.POINTER(c.c_int)]),
        ("error_set", None, [c.POINTER(_Error), c.c_int, c.c_char_p]),
        ("error_release", None, [c.POINTER(_Error)])):
    _function = getattr(_LIBRARY, "foretrain_" + _name)
    _function.restype, _function.argtypes = _result, _words
_LIBC = c.CDLL(None)
_LIBC.malloc.restype = c.c_void_p

version = _LIBRARY.foretrain_version().decode()


def _copy(data):
    """Memory of malloc() with @data and a NUL."""
    memory = _LIBC.malloc(c.c_size_t(len(data) + 1))
    c.memmove(memory, data + b"\0", len(data) + 1)
    return memory


def simulator():
    """The path of foretrain-sim; None: it is not there."""
    folder = os.environ.get("FORETRAIN_LIBEXEC")
    places = [pathlib.Path(folder)] if folder else [_PATH.parent, *(
        parent / "libexec" / "foretrain" for parent in _PATH.parents)]
    return next((place / "foretrain-sim" for place in places if (place / "foretrain-sim").is_file()), None)


@_RUN
def _run(_, document, output, error):
    """Runs foretrain-sim for the library."""
    program = simulator()
    if not program:
        _LIBRARY.foretrain_error_set(error, 69, b"foretrain-sim was not found")
        return -1
    done = subprocess.run([program], input=document, capture_output=True, check=False)
    if done.returncode:
        code = done.returncode if 64 <= done.returncode < 80 else 70
        _LIBRARY.foretrain_error_set(error, code, done.stderr or b"foretrain-sim stopped")
        return -1
    output[0] = _copy(done.stdout)
    return 0


def predict(job, *, backend="analytic", grain=None, text=None, files=None, values=None, draws=False, **short):
    """The answer of `foretrain predict JOB --json`, in closed form, or by backend="sim".

    @values are set, {"device.memory": "80GB"}; `nodes`, `platform`, `software`, `batch` and
    `algorithm` are short forms.  @text is that of the job, @files all files by their names, or a
    function from a name to its text.  @draws adds the step of each draw, `step_draws_s`.
    """
    for word, known in ((backend, ("analytic", "sim")), *((key, SHORT) for key in short)):
        if word not in known:
            raise Error(f"'{word}' is not known here: {', '.join(known)}", 64)
    get = files.get if isinstance(files, dict) else files

    @_OPEN
    def opened(_, name, length):
        found = get(name.decode())
        if found is None:
            return None
        length[0] = len(found.encode())
        return _copy(found.encode())

    name = os.fspath(job).encode()
    handle = (_LIBRARY.foretrain_job_open_with(name, opened, None) if files is not None else
              _LIBRARY.foretrain_job_open_text(name, text.encode()) if text is not None else
              _LIBRARY.foretrain_job_open(name))
    try:
        for key, value in {**{SHORT[key]: value for key, value in short.items()}, **(values or {})}.items():
            value = value if isinstance(value, str) else json.dumps(value)
            _LIBRARY.foretrain_job_set(handle, f"{key}={value}".encode())
        return _answer(handle, {"analytic": None, "sim": c.byref(_Simulator(_run, None, grain and grain.encode()))}[backend], draws)
    finally:
        _LIBRARY.foretrain_job_free(handle)


def _answer(handle, simulator, draws):
    """Predict an open job."""
    error, count = _Error(), c.c_int()
    answer = _LIBRARY.foretrain_predict(handle, simulator, c.byref(error))
    if not answer:
        reason = Error(error.text.decode().rstrip("\n"), error.code)
        _LIBRARY.foretrain_error_release(c.byref(error))
        raise reason
    result = json.loads(_LIBRARY.foretrain_answer_json(answer))
    if draws:
        steps = _LIBRARY.foretrain_answer_steps(answer, c.byref(count))
        result["step_draws_s"] = steps[:count.value]
    _LIBRARY.foretrain_answer_free(answer)
    return result
