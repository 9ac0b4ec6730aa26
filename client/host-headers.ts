/** The headers with which a program shows itself to the host. */
import type { HostAddress } from './connection.ts'

export const hostHeaders = ({
  token,
  headers,
}: Pick<HostAddress, 'token' | 'headers'>): Readonly<Record<string, string>> => ({
  ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  ...headers,
})
