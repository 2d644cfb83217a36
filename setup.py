"""The extension modules; everything else is in setup.cfg.

Optional: without a C compiler filter and readers compute with numpy (docs/decisions/0018, 0070), the probe in Python
(0042).
They cannot be named in pyproject.toml: setuptools (74.1 and newer) knows ``[tool.setuptools] ext-modules`` there,
but calls it experimental, and with any such table it wants the metadata there too and refuses those of setup.cfg.
"""

from glob import glob

from setuptools import Extension, setup


def native_step(module: str) -> Extension:
    """One step of the filter or the probe in C: the same operations as numpy's or Python's, no fused ones."""
    return Extension(
        module,
        [module.replace(".", "/") + ".c"],
        depends=sorted([*glob(module.replace(".", "/").rpartition("/")[0] + "/*.h"), *glob("acquisition/wire/*.h")]),
        extra_compile_args=["-O3", "-ffp-contract=off", "-fopenmp-simd"],
        py_limited_api=True,
        optional=True,
    )


setup(
    ext_modules=[
        native_step("acquisition.outbox._per_frame"),
        native_step("acquisition.snapshot._heads"),
        native_step("filters.archive._fold"),
        native_step("filters.worker.step._step"),
        native_step("probes._columns"),
        native_step("probes.sources._process_step"),
    ]
)
