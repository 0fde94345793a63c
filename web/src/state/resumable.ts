/** One large file by tus 1.0. */
import { DetailedError, Upload, type HttpResponse } from 'tus-js-client';
import { API, ApiError } from '../api/http';
import type { Item, Outcome } from '../lib/queue';

/** Reads of the file are of this size at most, so a large file is never in memory. */
const CHUNK_BYTES = Infinity;

export function sendResumable(item: Item, file: File, progress: (sent: number) => void, signal: AbortSignal): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const upload = new Upload(file, {
      endpoint: `${API}/uploads`,
      chunkSize: CHUNK_BYTES,
      // The queue tries again by its own rule, which knows whether the network is there.
      retryDelays: null,
      headers: { 'X-Requested-With': 'holdfast' },
      metadata: {
        space: item.space,
        path: item.path,
        modified_ms: String(file.lastModified),
        conflict: item.conflict,
      },
      removeFingerprintOnSuccess: true,
      fingerprint: () => Promise.resolve(fingerprint(item, file)),
      onProgress: (sent) => progress(sent),
      onSuccess: () => resolve({ kind: 'done' }),
      onError: (error) => {
        const failure = toApiError(error);
        if (failure.status === 409 || failure.status === 412) resolve({ kind: 'conflict' });
        else reject(failure);
      },
      onAfterResponse: () => {
        // Where to end it, if it is given up.
        item.remembered = upload.url?.split('/').pop() ?? item.remembered;
      },
    });
    // Aborting keeps what was sent: that is what pausing is.
    signal.addEventListener('abort', () => {
      void upload.abort();
      reject(new ApiError(0, ''));
    });
    void begin(upload, item, signal);
  });
}

async function begin(upload: Upload, item: Item, signal: AbortSignal): Promise<void> {
  const [previous] = await upload.findPreviousUploads();
  if (previous) upload.resumeFromPreviousUpload(previous);
  // An upload the drive remembers although this browser does not.
  else if (item.remembered !== null) upload.url = `${API}/uploads/${encodeURIComponent(item.remembered)}`;
  if (!signal.aborted) upload.start();
}

/** What tells one upload from another: where it goes, and which file it is. */
function fingerprint(item: Item, file: File): string {
  return ['holdfast', item.space, item.path, item.conflict, file.size, file.lastModified].join('|');
}

function toApiError(error: Error | DetailedError): ApiError {
  const response: HttpResponse | null = error instanceof DetailedError ? error.originalResponse : null;
  if (!response) return new ApiError(0, '');
  const retry = Number(response.getHeader('Retry-After'));
  return new ApiError(response.getStatus(), detailOf(response.getBody()), retry > 0 ? retry : null);
}

function detailOf(body: string): string {
  try {
    return String((JSON.parse(body) as { detail?: unknown }).detail ?? '');
  } catch {
    return body.slice(0, 300);
  }
}
