//! Schema and client of mapperd's control socket.
