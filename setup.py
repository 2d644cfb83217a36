"""The extension module; everything else is in setup.cfg.

Optional: without a C compiler the filter computes with numpy (docs/decisions/0018). It cannot be named in
pyproject.toml: setuptools (74.1 and newer) knows ``[tool.setuptools] ext-modules`` there, but calls it
experimental, and with any such table it wants the metadata there too and refuses those of setup.cfg.
"""

from pathlib import Path

from setuptools import Extension, setup


def native_step(module: str) -> Extension:
    """The filter's step in C: the same operations as numpy's, no fused ones."""
    source = Path(module.replace(".", "/") + ".c")
    return Extension(
        module,
        [str(source)],
        depends=sorted(str(header) for header in source.parent.glob("*.h")),
        extra_compile_args=["-O3", "-ffp-contract=off", "-fopenmp-simd"],
        py_limited_api=True,
        optional=True,
    )


setup(ext_modules=[native_step("filters.worker.step._step")])
