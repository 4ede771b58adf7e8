# The public names: type checkers read this file, and vkshare/interop/__init__.py takes its names
# from it.
from vkshare.interop import cuda as cuda
from vkshare.interop import gl as gl
from vkshare.interop import host as host
