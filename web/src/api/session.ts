/** The caller: session, devices, tokens, password. */
import { ask } from './http';
import type { Arrival, Device, Factors, Identity, Me, NewCodes, NewToken, Passkey, PasskeyAnswer, PasskeyQuestion, Space, Token, Ways } from './types';

export const me = () => ask<Me>('GET', '/me', { signingIn: true });
/** Whoever is signed in; nobody is no failure. */
export const who = async () => (await ask<{ me: Me | null }>('GET', '/session')).me;
/** Answers a new recovery code. */
export const recover = (name: string, recovery_code: string, password: string) =>
  ask<{ recovery_code: string }>('POST', '/session/recovery', { json: { name, recovery_code, password }, signingIn: true });

export type Second = { code: string } | { recovery_code: string } | { passkey: PasskeyAnswer };

export const signIn = (name: string, password: string, remember: boolean, second?: Second) =>
  ask<Me>('POST', '/session', { json: { name, password, remember, ...second }, signingIn: true });
export const askPasskey = () => ask<PasskeyQuestion>('POST', '/session/passkey/question', { signingIn: true });
export const signInWithPasskey = (answer: PasskeyAnswer, remember: boolean) =>
  ask<Me>('POST', '/session/passkey', { json: { answer, remember }, signingIn: true });

export const signOut = () => ask<void>('DELETE', '/session', { signingIn: true });

export const devices = () => ask<Device[]>('GET', '/sessions');
export const endDevice = (id: number) => ask<void>('DELETE', `/sessions/${id}`);

export const tokens = () => ask<Token[]>('GET', '/tokens');
export const makeToken = (token: NewToken) => ask<{ id: number; token: string }>('POST', '/tokens', { json: token });
export const revokeToken = (id: number) => ask<void>('DELETE', `/tokens/${id}`);

export const changePassword = (current: string, next: string) =>
  ask<void>('PUT', '/me/password', { json: { current, new: next } });

export const factors = () => ask<Factors>('GET', '/me/factors');
export const beginCodes = (password: string) => ask<NewCodes>('POST', '/me/codes', { json: { password } });
export const confirmCodes = (ticket: string, code: string) => ask<void>('PUT', '/me/codes', { json: { ticket, code } });
export const removeCodes = (proof: { code: string } | { recovery_code: string }) => ask<void>('POST', '/me/codes/remove', { json: proof });
export const newRecoveryCode = (password: string) => ask<{ recovery_code: string }>('POST', '/me/recovery-code', { json: { password } });
export const askNewPasskey = (password: string) => ask<PasskeyQuestion>('POST', '/me/passkeys/question', { json: { password } });
export const addPasskey = (passkey: { ticket: string; label: string; client_data: string; authenticator_data: string; secret?: string }) =>
  ask<Passkey>('POST', '/me/passkeys', { json: passkey });
export const renamePasskey = (id: number, label: string) => ask<void>('PATCH', `/me/passkeys/${id}`, { json: { label } });
export const removePasskey = (id: number, password: string) => ask<void>('POST', `/me/passkeys/${id}/remove`, { json: { password } });

export const ways = () => ask<Ways>('GET', '/sign-in', { signingIn: true });
export const beginProvider = (provider: string) => ask<{ url: string }>('POST', '/session/provider', { json: { provider }, signingIn: true });
/** Where to sign out at a provider, if that is possible. */
export const leaveProvider = (provider: string) => ask<{ url: string | null }>('POST', '/session/provider/leave', { json: { provider }, signingIn: true });
interface Answer { code: string; state: string; issuer?: string }
export const answerProvider = (answer: Answer & { remember: boolean }) =>
  ask<Arrival>('POST', '/session/provider/answer', { json: answer, signingIn: true });
export const sendPassphrase = (answer: { ticket: string; passphrase: string; remember: boolean } & (Second | object)) =>
  ask<Arrival>('POST', '/session/provider/passphrase', { json: answer, signingIn: true });
export const identities = () => ask<Identity[]>('GET', '/me/identities');
export const beginLink = (provider: string, password: string) => ask<{ url: string }>('POST', '/me/identities/begin', { json: { provider, password } });
export const link = (answer: Answer) => ask<Identity>('POST', '/me/identities', { json: answer });
export const unlink = (id: number) => ask<void>('DELETE', `/me/identities/${id}`);

export const space = (name: string) => ask<Space>('GET', `/spaces/${encodeURIComponent(name)}`);
