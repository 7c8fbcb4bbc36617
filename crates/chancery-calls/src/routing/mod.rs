//! The way of a call: virtual host, route, cluster, and what the route says of it (C-094 to C-104).
