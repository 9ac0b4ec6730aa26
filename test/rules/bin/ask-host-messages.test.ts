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
    'the host at http://h.example does not accept the token of launch.json; another host may use its port: restart this one, or name the right one with --data-dir',
  ],
  [
    'a wrong token of the environment',
    { ...at, tokenFrom: 'SWITCHYARD_TOKEN', isFromEnvironment: true as const },
    401,
    '',
    'the host at http://h.example does not accept the token of SWITCHYARD_TOKEN; a restarted host has a new token: take it from the launch.json in its data directory',
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
