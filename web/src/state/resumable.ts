/**
 * One large file by tus 1.0. An upload outlives the page: its address is kept in this browser under what tells the file, and
 * the drive knows its unfinished uploads besides. One that has all its bytes and no file, because its name was taken, waits
 * to be finished under another rule; no byte is sent twice for that.
 */
import { DetailedError, Upload } from 'tus-js-client';
import { API, ApiError, heard } from '../api/http';
import * as api from '../api/uploads';
import type { Item, Outcome } from '../lib/queue';

export async function sendResumable(item: Item, progress: (sent: number) => void, signal: AbortSignal): Promise<Outcome> {
  if (item.remembered !== null) {
    const settled = await settle(item, progress);
    if (settled) return settled;
  }
  if (!item.file) throw new ApiError(400, 'the file is not here any more');
  try {
    await send(item, item.file, progress, signal);
    return { kind: 'done' };
  } catch (error) {
    if (!(error instanceof ApiError) || (error.status !== 409 && error.status !== 412)) throw error;
    // Without an address it was refused at its creation: the name is taken.
    if (item.remembered === null) return { kind: 'conflict' };
    const settled = await settle(item, progress);
    if (settled) return settled;
    // Somebody else went on with it: where it stands is asked anew.
    throw new ApiError(0, '');
  }
}

/** Finishes an upload that waits, if the person has said how; null if it does not wait: then it goes on from where the drive says. */
async function settle(item: Item, progress: (sent: number) => void): Promise<Outcome | null> {
  const id = item.remembered;
  if (id === null) return null;
  try {
    const found = await api.upload(id);
    if (!found.waits) {
      progress(found.offset_bytes);
      return null;
    }
    if (item.conflict === 'fail') return { kind: 'conflict' };
    await api.finish(id, item.conflict);
    return { kind: 'done' };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 409 || error.status === 412) return { kind: 'conflict' };
    if (error.status !== 404) throw error;
    // It expired: everything from the beginning.
    item.remembered = null;
    return null;
  }
}

function send(item: Item, file: File, progress: (sent: number) => void, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const upload = new Upload(file, {
      endpoint: `${API}/uploads`,
      // The queue tries again by its own rule, which knows whether the network is there.
      retryDelays: null,
      headers: { 'X-Requested-With': 'holdfast' },
      metadata: {
        space: item.space, path: item.path, modified_ms: String(file.lastModified), conflict: item.conflict,
        ...(item.tags.length > 0 && { tags: item.tags.join('\n') }),
      },
      removeFingerprintOnSuccess: true,
      fileReader: { openFile: (opened: File) => Promise.resolve(sourceOf(opened)) },
      fingerprint: () => Promise.resolve(fingerprint(item, file)),
      onProgress: (sent) => progress(sent),
      onSuccess: () => resolve(),
      onError: (error) => {
        const failed = toApiError(error);
        heard(failed.status);
        reject(failed);
      },
      onUploadUrlAvailable: () => {
        item.remembered = upload.url?.split('/').pop() ?? null;
      },
    });
    // Aborting keeps what was sent: that is what pausing is.
    signal.addEventListener('abort', () => {
      void upload.abort();
      reject(new ApiError(0, ''));
    });
    void begin(upload, item, signal).catch(reject);
  });
}

/**
 * What the client sends of a file. From its first byte on that is the file itself: XMLHttpRequest, which the client sends by, has a `File` read by
 * the process that sends it, and of a slice, even of the whole, two more processes have their hands on every byte. Chromium then needs about twice the
 * processor time (`node web/e2e/ways.mjs`; docs/BENCH.md has figures).
 */
function sourceOf(file: File) {
  const slice = (start: number, end: number) =>
    Promise.resolve({ value: start === 0 && end >= file.size ? file : file.slice(start, end), done: end >= file.size });
  return { size: file.size, slice, close: () => {} };
}

async function begin(upload: Upload, item: Item, signal: AbortSignal): Promise<void> {
  const [previous] = await upload.findPreviousUploads();
  if (previous) upload.resumeFromPreviousUpload(previous);
  // One the drive remembers although this browser does not.
  else if (item.remembered !== null) upload.url = api.addressOf(item.remembered);
  if (!signal.aborted) upload.start();
}

/** What tells one upload from another: where it goes, and which file it is. */
function fingerprint(item: Item, file: File): string {
  return ['holdfast', item.space, item.path, file.size, file.lastModified, ...item.tags].join('|');
}

function toApiError(error: Error | DetailedError): ApiError {
  const response = error instanceof DetailedError ? error.originalResponse : null;
  if (!response) return new ApiError(0, '');
  const retry = Number(response.getHeader('Retry-After'));
  return new ApiError(response.getStatus(), detailOf(response.getBody()), retry > 0 ? retry : null);
}

function detailOf(body: string): string {
  try {
    return String((JSON.parse(body) as { detail?: unknown }).detail ?? '');
  } catch {
    // A balancer's page, which says nothing to the person that the status does not.
    return '';
  }
}
