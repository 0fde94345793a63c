/** The caller: session, devices, tokens, password. */
import { ask } from './http';
import type { Device, Me, NewToken, Space, Token } from './types';

export const me = () => ask<Me>('GET', '/me', { signingIn: true });

export const signIn = (name: string, password: string, remember: boolean) =>
  ask<Me>('POST', '/session', { json: { name, password, remember }, signingIn: true });

export const signOut = () => ask<void>('DELETE', '/session', { signingIn: true });

export const devices = () => ask<Device[]>('GET', '/sessions');
export const endDevice = (id: number) => ask<void>('DELETE', `/sessions/${id}`);

export const tokens = () => ask<Token[]>('GET', '/tokens');
export const makeToken = (token: NewToken) => ask<{ id: number; token: string }>('POST', '/tokens', { json: token });
export const revokeToken = (id: number) => ask<void>('DELETE', `/tokens/${id}`);

export const changePassword = (current: string, next: string) =>
  ask<void>('PUT', '/me/password', { json: { current, new: next } });

export const space = (name: string) => ask<Space>('GET', `/spaces/${encodeURIComponent(name)}`);
