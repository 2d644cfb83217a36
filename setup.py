"""Extension modules; everything else is in setup.cfg.

Optional: without a C compiler filter and readers compute with numpy (docs/decisions/0018, 0041), the probe in Python
(0011).
They cannot be named in pyproject.toml: setuptools (74.1 and newer) knows ``[tool.setuptools] ext-modules`` there,
but calls it experimental, and with any such table it wants the metadata there too and refuses those of setup.cfg.
"""

import os
import sys
from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from acquisition import commit  # noqa: E402  needs the path above; imports the standard library only


class BuildWithCommit(build_py):
    """Records the commit of a checkout in what is built from it; deploy/build has recorded it in its source already."""

    def run(self) -> None:
        """Copy the modules, and write the commit into the copy."""
        super().run()
        if not self.editable_mode and (found := commit.of_checkout(ROOT)):
            commit.record(Path(self.build_lib), found)


#: In CI a warning is an error; a user's compiler, which nobody here knows, may warn, and may fail.
STRICT = bool(os.environ.get("SHARDPULSE_STRICT_BUILD"))
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Werror"] if STRICT else []


def native_step(module: str) -> Extension:
    """One step of the filter or the probe in C: the same operations as numpy's or Python's, no fused ones."""
    return Extension(
        module,
        [module.replace(".", "/") + ".c"],
        depends=sorted([*glob(module.replace(".", "/").rpartition("/")[0] + "/*.h"), *glob("acquisition/wire/*.h")]),
        extra_compile_args=["-O3", "-ffp-contract=off", "-fopenmp-simd", *WARNINGS],
        py_limited_api=True,
        optional=not STRICT,
    )


setup(
    cmdclass={"build_py": BuildWithCommit},
    ext_modules=[
        native_step("acquisition.snapshot._heads"),
        native_step("filters.archive.minutes._fold"),
        native_step("filters.worker.step._step"),
        native_step("probes._columns"),
        native_step("probes.sources._process_step"),
    ],
)
