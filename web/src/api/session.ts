/** The caller: session, devices, tokens, password. */
import { ask } from './http';
import type { Device, Factors, Me, NewCodes, NewToken, Passkey, PasskeyAnswer, PasskeyQuestion, Space, Token } from './types';

export const me = () => ask<Me>('GET', '/me', { signingIn: true });

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

export const space = (name: string) => ask<Space>('GET', `/spaces/${encodeURIComponent(name)}`);
