/** The words for a person whose request a host refused. */
import { expect, test } from '@jest/globals'
import { formatRefusal } from '../../../bin/client/ask-host.ts'

const at = { url: 'http://h.example', token: 'secret', tokenFrom: 'launch.json' }

test.each([
  [
    'a wrong token',
    at,
    401,
    '',
    'the host at http://h.example does not accept the token of launch.json, because that is not its present one; another host may use its port: restart this one, or name the right one with --data-dir',
  ],
  [
    'a wrong token of the environment',
    { ...at, tokenFrom: 'SWITCHYARD_TOKEN', isFromEnvironment: true as const },
    401,
    '',
    'the host at http://h.example does not accept the token of SWITCHYARD_TOKEN, because that is not its present one; a host gets a new token at each start: unset SWITCHYARD_URL and SWITCHYARD_TOKEN to read launch.json, or take the token from the launch.json in its data directory',
  ],
  ['the words of the host', at, 409, '{"error":"run-1 is running\\u001b"}', 'run-1 is running\ufffd'],
  [
    'a reply of another server',
    at,
    302,
    '<html>',
    'http://h.example answered 302 in a form that a host does not use',
  ],
])('the message for %s', (_, address, status, text, expected) => {
  expect(formatRefusal(address, { status, text })).toBe(expected)
})

test('a token that was lost on the way is not called wrong', () => {
  expect(formatRefusal(at, { status: 401, text: '', challenge: 'Bearer' })).toBe(
    'the token of launch.json did not reach the host at http://h.example; let the proxy in front of it pass on the Authorization header',
  )
})
