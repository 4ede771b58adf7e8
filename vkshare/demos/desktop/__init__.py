"""The desktop demo: eight clients of a compositor, each a process of its own, in one window.

The parent (run.py) starts the compositor's process (screen.py) and the clients (clients.py), and
starts the one again that crashes. The compositor's process draws what is behind the windows and the
statistics (wallpaper.py), counts what is shown, and looks whether every client's pictures come in
order (census.py).
"""
