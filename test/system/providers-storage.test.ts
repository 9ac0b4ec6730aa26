/**
 * Artifacts of a run are uploaded by the configured command and linked in the pull request exactly once, even if the
 * host dies in between.
 */
import { expect, test } from '@jest/globals'
import type { StorageStatus } from '../../protocol/connect.ts'
import type { Run } from '../../protocol/run.ts'
import { SYSTEM_WAIT_MS_MAX } from '../support/dashboard-client.ts'
import { FaultMatcher } from '../support/fault-matcher.ts'
import { ProviderSystem } from '../support/system-with-providers.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'
import { createFakeWrangler, type FakeWrangler } from '../support/wrangler.ts'

const TEST_MS_MAX = 300_000
const TOKEN = 'gho_of_mona'
const WORK = ['write a.txt', '  a', 'artifact report.md', '  # All is well', 'commit A']
const COMMENTING = '^POST /repos/acme/app/issues/\\d+/comments$'
/** The delay of a response during which the host is killed. */
const LATE_MS = 500

async function openWithBucket(): Promise<{ system: ProviderSystem; wrangler: FakeWrangler }> {
  const wrangler = createFakeWrangler(tempFolder(), { loggedIn: true })
  const system = await ProviderSystem.open({
    storage: { bucket: 'shots', publicBaseUrl: 'https://shots.example/' },
    codehost: { token: TOKEN },
    env: { PATH: `${wrangler.bin}:${process.env.PATH}` },
  })
  system.github.addToken('mona', TOKEN)
  await system.send('PUT', '/api/settings/credentials', { trackerApiKey: system.linear.apiKey })
  return { system, wrangler }
}

const numberOf = ({ prUrl = '' }: Run): number => Number(prUrl.split('/').at(-1))
const commentsOf = ({ github }: ProviderSystem, number: number): readonly string[] =>
  github.issue('acme/app', number).comments.map(({ body }) => body)
const countUploads = (wrangler: FakeWrangler): number =>
  wrangler.calls().filter(({ args }) => args.includes('put')).length

/** The links of a comment as paths in the bucket. */
function keyIn(comment: string): string {
  const key = /\]\(https:\/\/shots\.example\/([^)]+)\)/.exec(comment)?.[1]
  if (key === undefined) throw new Error(`no link in ${comment}`)
  return key
}

async function expectArtifactsDelivered(
  system: ProviderSystem,
  wrangler: FakeWrangler,
  run: Run,
): Promise<void> {
  expect([run.status, run.prState]).toEqual(['completed', 'open'])
  const comments = () => commentsOf(system, numberOf(run))
  await until('the comment is there', () => comments().length > 0, SYSTEM_WAIT_MS_MAX)
  expect(comments()).toHaveLength(1)
  const shown = wrangler.remoteObject('shots', keyIn(comments()[0] ?? ''))
  expect([shown?.bytes.toString(), shown?.type]).toEqual([
    '# All is well\n',
    expect.stringContaining('text/markdown'),
  ])
}

test(
  'the artifacts are in the bucket and one comment links them, however often the host dies meanwhile',
  async () => {
    const { system, wrangler } = await openWithBucket()
    const { faults, counters } = system.github
    const storage = await system.get<StorageStatus>('/api/connect/storage')
    expect(storage).toMatchObject({ installed: true, loggedIn: true, account: 'Dev Account', ready: true })
    const usual = await system.waitForEnd(system.createTicket('All is well', WORK))
    await expectArtifactsDelivered(system, wrangler, usual)

    // Kill the host between the upload and the comment.
    Object.assign(faults, { matching: new RegExp(COMMENTING), reset: true })
    const uploaded = system.createTicket('Uploaded', WORK)
    await until('a comment broke off', () => counters.route('POST reset').requests > 0, SYSTEM_WAIT_MS_MAX)
    await system.killHost()
    Object.assign(faults, { matching: undefined, reset: false })
    await system.startHost()
    await expectArtifactsDelivered(system, wrangler, await system.waitForEnd(uploaded))

    // Kill the host between the comment and its response.
    const arrived = new Promise<void>((resolve) => {
      Object.assign(faults, { matching: new FaultMatcher(COMMENTING, resolve), latencyMs: LATE_MS })
    })
    const commented = system.createTicket('Commented', WORK)
    await arrived
    await system.killHost()
    const before = countUploads(wrangler)
    await until(
      'the comment is made all the same',
      () => commentsOf(system, 3).length > 0,
      SYSTEM_WAIT_MS_MAX,
    )
    Object.assign(faults, { matching: undefined, latencyMs: 0 })
    await system.startHost()
    // The next start finds the comment first: when a second run's comment exists, this one is complete.
    await expectArtifactsDelivered(
      system,
      wrangler,
      await system.waitForEnd(system.createTicket('Afterwards', WORK)),
    )
    await expectArtifactsDelivered(system, wrangler, await system.waitForEnd(commented))
    expect(countUploads(wrangler)).toBe(before + 1)
  },
  TEST_MS_MAX,
)
