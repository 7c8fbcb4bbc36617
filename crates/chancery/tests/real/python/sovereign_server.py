# Sovereign in one process, which ends when it is killed: its own launcher leaves workers behind then.
#
# Usage: sovereign_server.py PORT, with the configuration in SOVEREIGN_CONFIG.
import sys

import uvicorn
from sovereign.app import app

uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False)
