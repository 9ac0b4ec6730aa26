/** The words of the page that the browser shows after the tracker's consent page. */
import { expect, test } from '@jest/globals'
import { createCallbackPage } from '../../../actors/accounts/callback-page.ts'
import { CONNECT_AGAIN } from '../../../actors/accounts/oauth-redirects.ts'
import { no, type Result, yes } from '../../../core/result.ts'

test.each<[situation: string, result: Result<string>, title: string, message: string]>([
  [
    'the account is connected',
    yes('Ada of Acme'),
    'Connected',
    'switchyard is connected to the tracker: Ada of Acme. You can close this window.',
  ],
  [
    'the tracker refused the code',
    no('invalid', `the code is wrong; ${CONNECT_AGAIN}`),
    'Not connected',
    'The tracker was not connected: the code is wrong; connect the tracker again. You can close this window.',
  ],
])('%s', (_situation, result, title, message) => {
  expect(createCallbackPage(result)).toMatchObject({ title, message })
})
