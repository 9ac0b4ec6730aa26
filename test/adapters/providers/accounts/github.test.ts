/** Checks of GitHub tokens against a fake GitHub with several kinds of tokens. */
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { checkGithub } from '../../../../providers/accounts/github.ts'
import { type GithubBench, githubBench } from '../codehost/github-fixture.ts'
import { createManualGithub, type ManualReply } from '../codehost/manual-github.ts'

let bench: GithubBench
beforeAll(async () => {
  bench = await githubBench({ repos: [] })
})
afterAll(() => bench.close())

const check = (token: string, apiUrl = bench.github.apiUrl) => checkGithub(bench.clients, { token, apiUrl })
const site = () => new URL(bench.github.origin).host

test('a valid token returns its owner and the GitHub host', async () => {
  bench.github.addToken('pat', 'ghp_classic')
  bench.github.addToken('pat', 'github_pat_fine')
  for (const token of ['ghp_classic', 'github_pat_fine'])
    expect(await check(token)).toEqual({ ok: true, value: `pat on ${site()}` })
  expect(bench.github.violations).toEqual([])
})

test('a token with an expiry returns the date', async () => {
  const expiresAtMs = bench.clock.now() + 30 * 86_400_000
  bench.github.addToken('pat', { value: 'ghp_short', expiresAtMs })
  const day = new Date(expiresAtMs).toISOString().slice(0, 10)
  expect(await check('ghp_short')).toEqual({ ok: true, value: `pat on ${site()}, until ${day}` })
})

test('a classic token needs the scope', async () => {
  bench.github.addToken('pat', { value: 'ghp_little', scopes: ['public_repo', 'gist'] })
  expect(await check('ghp_little')).toMatchObject({
    refusal: { kind: 'invalid', message: expect.stringMatching(/^the token of pat lacks the scope repo/) },
  })
})

test.each(['ghu_app', 'github_pat_fine'])('%s has no scopes and is accepted', async (token) => {
  const empty: ManualReply = { json: { login: 'pat' }, headers: { 'x-oauth-scopes': '' } }
  expect(await checkGithub(createManualGithub(() => empty).clients, { token })).toEqual({
    ok: true,
    value: 'pat on github.com',
  })
})

test.each([
  ['ghp_nobody_planted', undefined, 'unauthorized'],
  ['', undefined, 'invalid'],
  ['ghp_x', 'http://code.example/api/v3', 'invalid'],
])('%j at %s is %s', async (token, apiUrl, kind) => {
  const answer = await check(token, apiUrl)
  expect(answer).toMatchObject({ refusal: { kind } })
  expect(JSON.stringify(answer)).not.toContain('planted')
})

test.each<[ManualReply, unknown]>([
  [{ json: { login: 'pat' }, headers: { 'x-oauth-scopes': '' } }, { refusal: { kind: 'invalid' } }],
  [{ json: { login: 'p\u001b[2Jat' } }, { ok: true, value: 'p�[2Jat on github.com' }],
  [{ json: { login: 5 } }, { refusal: { kind: 'failed' } }],
  [{ text: '<html>' }, { refusal: { kind: 'failed' } }],
  [
    { status: 403, json: { message: 'Resource not accessible by integration' } },
    { refusal: { kind: 'forbidden' } },
  ],
  [
    { json: { login: 'pat' }, headers: { 'github-authentication-token-expiration': 'soon' } },
    { ok: true, value: 'pat on github.com' },
  ],
])('%j → %j', async (reply, expected) => {
  expect(await checkGithub(createManualGithub(() => reply).clients, { token: 'ghp_x' })).toMatchObject(
    expected as object,
  )
})
