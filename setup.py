"""The extension module, which setup.cfg cannot name; everything else is there.

Optional: without a C compiler the filter computes with numpy (docs/decisions/0018).
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
