# The public names: type checkers read this file, and vkshare/compositor/__init__.py takes its names
# from it.
from vkshare.compositor.compositor import Compositor as Compositor
from vkshare.compositor.desktop import Desktop as Desktop
from vkshare.compositor.remote_window import RemoteWindow as RemoteWindow
from vkshare.compositor.service import Service as Service
from vkshare.compositor.statistics import CompositorStatistics as CompositorStatistics
from vkshare.compositor.window import ClientWindow as ClientWindow
from vkshare.compositor.window import WindowStatistics as WindowStatistics
