/** The words for a person whose request a host refused. */
import { expect, test } from '@jest/globals'
import { describeRefusal } from '../../../client/errors.ts'

const at = { url: 'http://h.example', token: 'secret', tokenFrom: 'launch.json' }

test.each([
  [
    'a wrong token',
    at,
    401,
    '',
    'the host at http://h.example refused the token of launch.json; another host may use its port',
    'restart the host, or name the right one with --data-dir',
  ],
  [
    'a wrong token of the environment',
    { ...at, tokenFrom: 'SWITCHYARD_TOKEN', isFromEnvironment: true as const },
    401,
    '',
    'the host at http://h.example refused SWITCHYARD_TOKEN',
    'unset SWITCHYARD_TOKEN SWITCHYARD_URL, then launch.json is read',
  ],
  [
    'the words of the host',
    at,
    409,
    '{"error":"run-1 is running\\u001b"}',
    'run-1 is running\ufffd',
    undefined,
  ],
  [
    'a reply of another server',
    at,
    302,
    '<html>',
    'http://h.example answered 302 in a form that a host does not use',
    undefined,
  ],
])('the message for %s', (_, address, status, text, message, cure) => {
  expect(describeRefusal(address, { status, text })).toEqual({
    message,
    ...(cure === undefined ? {} : { cure }),
  })
})

test('a token that was lost on the way is not called wrong', () => {
  expect(describeRefusal(at, { status: 401, text: '', challenge: 'Bearer' })).toEqual({
    message: 'the token of launch.json did not reach the host at http://h.example',
    cure: 'let the proxy in front of it pass on the Authorization header',
  })
})
