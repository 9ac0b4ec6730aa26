/** Tests of the code host in `status`: the host is asked, also about a folder. */
import { expect, test } from '@jest/globals'
import { HostRefusal } from '../../../client/errors.ts'
import { describeCodeHost } from '../../../client/observed-services.ts'

const local = { codehost: { driver: 'local' } } as Parameters<typeof describeCodeHost>[1]
const github = { codehost: { driver: 'github' } } as Parameters<typeof describeCodeHost>[1]

test('a folder is connected when the host can read it, and is named when not', async () => {
  const answers = { listCodehostRepos: async () => [] }
  expect(await describeCodeHost(answers, local)).toBe('local, connected')
  const reply = { status: 503, text: '{"error": "/repos cannot be read"}' }
  const refusal = new HostRefusal({ url: 'http://127.0.0.1:4400' }, reply, 'GET /api/codehost/repos')
  const away = { listCodehostRepos: () => Promise.reject(refusal) }
  expect(await describeCodeHost(away, local)).toBe('local, /repos cannot be read')
})

test('a service without a token is not asked', async () => {
  const unasked = { listCodehostRepos: () => Promise.reject(new Error('asked')) }
  expect(await describeCodeHost(unasked, github)).toBe('github, not connected')
})
