// Uploads a file with tus-js-client, as a page does: tus_client.mjs ENDPOINT ACCOUNT PASSWORD FILE SPACE PATH [OPTION=VALUE]...
//
// Options: chunk (bytes of a request; the rest of the file if absent), store (a file that remembers the upload's address between two
// runs), stop (bytes after which it breaks the connection off, and ends). Any other is metadata.

import { createReadStream, statSync } from 'node:fs'
import { createRequire } from 'node:module'

// The package lies where the suite installed it, not beside this file.
const { FileUrlStorage, Upload } = createRequire(`${process.env.NODE_PACKAGES}/`)('tus-js-client')

const [endpoint, account, password, path, space, target, ...rest] = process.argv.slice(2)
const { chunk, store, stop, ...metadata } = Object.fromEntries(rest.map((option) => option.split(/=(.*)/s).slice(0, 2)))

const upload = new Upload(createReadStream(path), {
  endpoint,
  headers: { Authorization: `Basic ${Buffer.from(`${account}:${password}`).toString('base64')}` },
  metadata: { space, path: target, ...metadata },
  uploadSize: statSync(path).size,
  chunkSize: chunk ? Number(chunk) : Infinity,
  retryDelays: Array(40).fill(250),
  urlStorage: store ? new FileUrlStorage(store) : undefined,
  fingerprint: async () => `${account}-${path}-${target}`,
  storeFingerprintForResuming: Boolean(store),
  removeFingerprintOnSuccess: true,
  onError: (error) => {
    console.error(String(error))
    process.exit(1)
  },
  onSuccess: () => process.exit(0),
  onProgress: (sent) => {
    // As a reload does: the connection is gone in the middle of a request.
    if (stop && sent >= Number(stop)) process.exit(3)
  },
})
const previous = store ? await upload.findPreviousUploads() : []
if (previous.length > 0) upload.resumeFromPreviousUpload(previous[0])
upload.start()
