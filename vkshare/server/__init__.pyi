# The public names: type checkers read this file, and vkshare/server/__init__.py takes its names
# from it.
from vkshare.server.client import Client as Client
from vkshare.server.request_types import Kind as Kind
from vkshare.server.server import RenderServer as RenderServer
from vkshare.server.session_state import Route as Route
