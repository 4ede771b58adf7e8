# The public names: type checkers read this file, and vkshare/remote/__init__.py takes its names
# from it.
from vkshare.remote.host import Host as Host
from vkshare.remote.link import Link as Link
from vkshare.remote.link_client import connect as connect
from vkshare.remote.link_listener import LinkListener as LinkListener
from vkshare.remote.link_types import LinkEvents as LinkEvents
from vkshare.remote.link_types import LinkState as LinkState
from vkshare.remote.link_types import LinkStatistics as LinkStatistics
from vkshare.remote.target import RemoteTarget as RemoteTarget
from vkshare.remote.viewer import Viewer as Viewer
from vkshare.remote.viewer import ViewerStatistics as ViewerStatistics
