# The public names: type checkers read this file, and vkshare/engines/__init__.py takes its names
# from it.
from vkshare.engines import moderngl as moderngl
from vkshare.engines import panda3d as panda3d
from vkshare.engines import pygfx as pygfx
from vkshare.engines import pyglet as pyglet
from vkshare.engines import qt as qt
from vkshare.engines import slangpy as slangpy
from vkshare.engines import vtk as vtk
from vkshare.engines import wgpu as wgpu
from vkshare.engines.layer import enable as enable
