# The public names: type checkers read this file, and vkshare/video/__init__.py takes its names from
# it.
from vkshare.video.player import Player as Player
from vkshare.video.player import PlayerStatistics as PlayerStatistics
from vkshare.video.reader import Reader as Reader
from vkshare.video.reader import VideoFrame as VideoFrame
from vkshare.video.reader import open as open
from vkshare.video.writer import Writer as Writer
