"""What `conduit inspect` shows: one data model, and its pictures in the terminal, in PNG and in HTML.

The model is plain data (`model`); `session.inspecting` fills it. No module here imports torch.
"""
