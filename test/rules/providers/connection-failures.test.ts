/** The words of a refusal name the host, the proxy and the cure, when a connection fails. */
import { expect, test } from '@jest/globals'
import { connectionFailure, hostInUrl, proxyRefusal, stoppingRefusal } from '../../../providers/http/http.ts'

const URL_WITH_SECRET = 'https://code.example:444/secret?q=1'
const PROXY = 'p.example:1'
const errorWith = (code: string): Error => Object.assign(new Error('fetch failed'), { code })

test.each([
  [
    'no reply in time',
    connectionFailure(undefined, URL_WITH_SECRET, true, undefined),
    'failed',
    'code.example:444 did not answer within 30 s; check the network connection of this machine',
  ],
  [
    'no reply in time through a proxy',
    connectionFailure(undefined, URL_WITH_SECRET, true, PROXY),
    'failed',
    'code.example:444 did not answer through the proxy p.example:1 within 30 s; check the network connection of this machine',
  ],
  [
    'a refused connection',
    connectionFailure(errorWith('ECONNREFUSED'), URL_WITH_SECRET, false, undefined),
    'failed',
    'code.example:444 could not be reached (ECONNREFUSED); check the network connection of this machine',
  ],
  [
    'an error whose cause has the code',
    connectionFailure(
      new Error('fetch failed', { cause: errorWith('ENOTFOUND') }),
      URL_WITH_SECRET,
      false,
      PROXY,
    ),
    'failed',
    'code.example:444 could not be reached through the proxy p.example:1 (ENOTFOUND); check the network connection of this machine',
  ],
  [
    'an error without a code',
    connectionFailure('odd', URL_WITH_SECRET, false, undefined),
    'failed',
    'code.example:444 could not be reached (no code); check the network connection of this machine',
  ],
  [
    'an untrusted certificate',
    connectionFailure(errorWith('SELF_SIGNED_CERT_IN_CHAIN'), URL_WITH_SECRET, false, undefined),
    'failed',
    'code.example:444 could not be reached (SELF_SIGNED_CERT_IN_CHAIN); this machine does not trust its certificate; name the certificate authority in NODE_EXTRA_CA_CERTS',
  ],
  [
    'a credential that cannot be sent',
    connectionFailure(errorWith('UND_ERR_INVALID_ARG'), URL_WITH_SECRET, false, undefined),
    'invalid',
    'code.example:444 received no request: its credential holds characters that may not be sent; enter the credential again',
  ],
  [
    'a closed client',
    connectionFailure(errorWith('UND_ERR_CLOSED'), URL_WITH_SECRET, false, undefined),
    'unavailable',
    'code.example:444 gets no more requests: this process is stopping',
  ],
  [
    'a stopping process',
    stoppingRefusal('code.example'),
    'unavailable',
    'code.example gets no more requests: this process is stopping',
  ],
  [
    'a proxy without a login',
    proxyRefusal('code.example', PROXY, '407'),
    'failed',
    'code.example could not be reached: the proxy p.example:1 answered 407; put a valid user and password into the proxy variable',
  ],
  [
    'a proxy that forbids the host',
    connectionFailure(
      new Error('Proxy response (403) !== 200 when HTTP Tunneling'),
      URL_WITH_SECRET,
      false,
      PROXY,
    ),
    'failed',
    'code.example:444 could not be reached: the proxy p.example:1 answered 403; ask its operator',
  ],
])('the refusal after %s', (_, refused, kind, message) => {
  expect(refused).toEqual({ ok: false, refusal: { kind, message } })
})

test('only host and port of a URL are named', () => {
  expect(hostInUrl(URL_WITH_SECRET)).toBe('code.example:444')
})
