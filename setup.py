"""The extension module; everything else is in setup.cfg.

Optional: without a C compiler the filter computes with numpy (docs/decisions/0018). It cannot be named in
pyproject.toml: setuptools (74.1 and newer) knows ``[tool.setuptools] ext-modules`` there, but calls it
experimental, and with any such table it wants the metadata there too and refuses those of setup.cfg.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "filters.kernels._advance",
            ["filters/kernels/_advance.c"],
            extra_compile_args=["-O3", "-ffp-contract=off"],  # the same operations as numpy's, no fused ones
            py_limited_api=True,
            optional=True,
        )
    ]
)
