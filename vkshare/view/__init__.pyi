# The public names: type checkers read this file, and vkshare/view/__init__.py takes its names from
# it.
from vkshare.ipc.viewer_events import ViewerEvent as ViewerEvent
from vkshare.view.notebook import Shown as Shown
from vkshare.view.notebook import ShownStatistics as ShownStatistics
from vkshare.view.recording import Recorder as Recorder
from vkshare.view.recording import RecordingStatistics as RecordingStatistics
from vkshare.view.recording import record as record
from vkshare.view.server import ViewServer as ViewServer
from vkshare.view.server import ViewStatistics as ViewStatistics
from vkshare.view.server import serve as serve
