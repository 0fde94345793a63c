/** Calls of the browser for passkeys: questions of the drive as WebAuthn wants them, and answers as the drive wants them. */
import type { PasskeyAnswer, PasskeyQuestion } from '../api/types';

/** The person turned away, or there is no such passkey: browsers do not say which. */
export class NoAnswer extends Error {}

/** Whether this browser can, here: passkeys are bound to a name, not to an address in numbers. */
export function canPasskeys(): boolean {
  const { hostname } = location;
  return isSecureContext && 'PublicKeyCredential' in window && !/^[\d.]+$/.test(hostname) && !hostname.startsWith('[');
}

function bytes(text: string): Uint8Array<ArrayBuffer> {
  const plain = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
  return Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
}

function text(buffer: ArrayBuffer): string {
  const plain = String.fromCharCode(...new Uint8Array(buffer));
  return btoa(plain).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

type Credential = PublicKeyCredential & { response: AuthenticatorAssertionResponse & AuthenticatorAttestationResponse };

async function answered(asked: Promise<globalThis.Credential | null>): Promise<Credential> {
  try {
    const credential = await asked;
    if (credential === null) throw new NoAnswer();
    return credential as Credential;
  } catch (error) {
    if (error instanceof DOMException && (error.name === 'NotAllowedError' || error.name === 'AbortError')) throw new NoAnswer();
    throw error;
  }
}

const prf = (question: PasskeyQuestion) => ({ prf: { eval: { first: bytes(question.secret_input) } } });

function secretOf(credential: Credential): string | undefined {
  const first = credential.getClientExtensionResults().prf?.results?.first;
  return first === undefined ? undefined : text(first as ArrayBuffer);
}

const listed = (ids: string[]) => ids.map((id) => ({ type: 'public-key' as const, id: bytes(id) }));

/** Asks for a passkey. `alone`: it is to sign in by itself, so the authenticator makes sure whose hand it is. */
export async function askPasskey(question: PasskeyQuestion, alone: boolean): Promise<PasskeyAnswer> {
  const credential = await answered(
    navigator.credentials.get({
      publicKey: {
        challenge: bytes(question.challenge),
        rpId: question.party,
        allowCredentials: listed(question.credentials),
        userVerification: alone ? 'required' : 'discouraged',
        timeout: question.timeout_ms,
        ...(alone && { extensions: prf(question) }),
      },
    }),
  );
  const { response } = credential;
  const secret = secretOf(credential);
  return {
    ticket: question.ticket,
    credential: text(credential.rawId),
    client_data: text(response.clientDataJSON),
    authenticator_data: text(response.authenticatorData),
    signature: text(response.signature),
    ...(response.userHandle && { user: text(response.userHandle) }),
    ...(secret !== undefined && { secret }),
  };
}

export interface NewPasskey {
  ticket: string;
  client_data: string;
  authenticator_data: string;
  secret?: string;
}

/** Makes a passkey. Some authenticators say only when one is used what it yields, so that it is used once at once. */
export async function makePasskey(question: PasskeyQuestion, name: string): Promise<NewPasskey> {
  const credential = await answered(
    navigator.credentials.create({
      publicKey: {
        challenge: bytes(question.challenge),
        rp: { id: question.party, name: 'Holdfast' },
        user: { id: bytes(question.user), name, displayName: name },
        pubKeyCredParams: question.algorithms.map((alg) => ({ type: 'public-key', alg })),
        excludeCredentials: listed(question.credentials),
        authenticatorSelection: { residentKey: 'preferred', userVerification: 'preferred' },
        attestation: 'none',
        timeout: question.timeout_ms,
        extensions: prf(question),
      },
    }),
  );
  let secret = secretOf(credential);
  if (secret === undefined && credential.getClientExtensionResults().prf?.enabled) {
    const own = { ...question, credentials: [text(credential.rawId)] };
    secret = (await askPasskey(own, true)).secret;
  }
  const { response } = credential;
  return {
    ticket: question.ticket,
    client_data: text(response.clientDataJSON),
    authenticator_data: text(response.getAuthenticatorData()),
    ...(secret !== undefined && { secret }),
  };
}
