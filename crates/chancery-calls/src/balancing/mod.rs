//! Policies that choose among endpoints (C-109 to C-120, C-147, C-149).
