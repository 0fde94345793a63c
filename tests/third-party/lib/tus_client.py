"""Uploads a file with tuspy, as a program that keeps at it: tus_client.py ENDPOINT ACCOUNT PASSWORD FILE SPACE PATH [OPTION=VALUE]...

Options: chunk (bytes of a request; the rest of the file if absent), checksum (any value: every request carries one), store (a file that
remembers the upload's address between two runs), stop (bytes after which it stops in the middle), retries, offset (prints what the server
says it has, and ends). Any other is metadata.
"""

import base64
import sys

from tusclient import client
from tusclient.storage import filestorage

endpoint, account, password, path, space, target = sys.argv[1:7]
options = dict(option.split("=", 1) for option in sys.argv[7:])
take = options.pop
chunk, checksum, store = take("chunk", None), take("checksum", None), take("store", None)
stop, retries, offset = int(take("stop", 0)), int(take("retries", 0)), take("offset", None)

secret = base64.b64encode(f"{account}:{password}".encode()).decode()
tus = client.TusClient(endpoint, headers={"Authorization": f"Basic {secret}"})
how = {"metadata": {"space": space, "path": target, **options}, "retries": retries, "retry_delay": 0.2}
if chunk:
    how["chunk_size"] = int(chunk)
if checksum:
    how["upload_checksum"] = True
if store:
    how |= {"store_url": True, "url_storage": filestorage.FileStorage(store)}
uploader = tus.uploader(path, **how)
if offset:
    print(uploader.get_offset())
elif stop:
    while uploader.offset < stop:
        uploader.upload_chunk()
else:
    uploader.upload()
print(uploader.offset)
