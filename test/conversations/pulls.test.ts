/** A run's pull request: its state is polled, its ticket links it, and the run's artifacts are linked in it. */
import { expect, test } from '@jest/globals'
import { no, type RefusalKind, yes } from '../../core/result.ts'
import { ManualBucket, ManualPullRequests, manualPullUrl } from '../support/manual-code-host.ts'
import {
  acceptRun,
  configWith,
  type HostConversation,
  startHost as plainYarn,
  HostConversation as YarnOf,
} from './host-conversation.ts'

const URL = manualPullUrl('owner/name', 1)
const STORAGE = { bucket: 'files', publicBaseUrl: 'https://files.example/x/' }

async function startWithOpenPull(config: object = {}) {
  const host: HostConversation = new YarnOf(configWith(config))
  const pulls = new ManualPullRequests()
  const bucket = new ManualBucket()
  host.overrides = { pulls: () => yes(pulls), bucket }
  await host.start()
  pulls.pulls.set(URL, 'open')
  return { host, pulls, bucket }
}

async function startWithFinishedRun(config: object = {}) {
  const made = await startWithOpenPull(config)
  const { connection, work, runId } = await acceptRun(made.host)
  await connection.send(work.patch({ prUrl: URL, prState: 'open' }), work.artifact('shot 1.png', 'pixels'))
  await connection.send(work.artifact('log.txt', 'lines'))
  await connection.send(
    work.complete({
      prUrl: URL,
      prState: 'open',
      result: { prUrl: URL, artifacts: ['shot 1.png', 'log.txt'] },
    }),
  )
  return { ...made, connection, work, runId }
}

test('a listed pull request names the newest run that worked on it, and its ticket, after a restart too', async () => {
  const { host, pulls, runId } = await startWithFinishedRun({ repos: { web: { remote: 'owner/name' } } })
  pulls.pulls.set(manualPullUrl('owner/name', 2), 'open')
  const run = { id: runId, ticket: 'ENG-1' }
  const namedRuns = async () => {
    const { pulls } = await host.succeeded(host.hostApi.pulls())
    return pulls.map(({ number, run }) => [number, run]).sort()
  }
  const named = [
    [1, run],
    [2, undefined],
  ]
  expect(await namedRuns()).toEqual(named)
  expect((await host.succeeded(host.hostApi.pull('web', 1))).run).toEqual(run)
  pulls.pulls.set(URL, 'merged')
  await host.advance(121)
  await host.crash()
  expect(await namedRuns()).toEqual(named)
})

// ---- polling -----------------------------------------------------------------------------------------------------

test('a pull request that was merged elsewhere is noticed within two minutes and pushed', async () => {
  const { host, pulls, runId } = await startWithFinishedRun()
  const pushes = host.recordPushes()
  pulls.pulls.set(URL, 'merged')
  await host.advance(121)
  expect(host.run(runId).prState).toBe('merged')
  expect(pushes.filter(({ type }) => type === 'run-updated')).toMatchObject([
    { run: { id: runId, prState: 'merged' } },
  ])
  pulls.requests = []
  await host.advance(600)
  expect(pulls.requests).toEqual([])
})

test('what a run learnt is kept once its pull request is merged, also across a restart', async () => {
  const { host, pulls } = await startWithOpenPull()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.memories('owner/name', 'tests run with make'))
  const result = { prUrl: URL, artifacts: [] }
  await connection.send(work.complete({ prUrl: URL, prState: 'open', result }))
  const states = () => host.hostApi.memories().repos['owner/name']?.map(({ state }) => state)
  expect(states()).toEqual(['new'])
  await host.restart()
  pulls.pulls.set(URL, 'merged')
  await host.advance(121)
  expect(states()).toEqual(['kept'])
})

test('all runs of a repository are asked about in one question, in the background', async () => {
  const { host, pulls } = await startWithFinishedRun()
  pulls.requests = []
  await host.advance(121)
  expect(pulls.requests).toEqual(['states owner/name 1 background'])
})

test('opening a run checks its pull request, once however often the page is loaded', async () => {
  const { host, pulls, runId } = await startWithFinishedRun()
  pulls.requests = []
  pulls.pulls.set(URL, 'draft')
  for (let times = 0; times < 5; times++) host.hostApi.run(runId)
  await host.settle()
  expect(pulls.requests).toEqual(['states owner/name 1 person'])
  expect(host.run(runId).prState).toBe('draft')
})

test('an unreachable code host changes nothing', async () => {
  const { host, pulls, runId } = await startWithFinishedRun()
  pulls.refusal = no('unavailable', 'GitHub wants fewer requests')
  await host.advance(600)
  expect(host.run(runId).prState).toBe('open')
  pulls.refusal = undefined
  pulls.pulls.set(URL, 'closed')
  await host.advance(121)
  expect(host.run(runId).prState).toBe('closed')
})

test('the state of a run that is queued again is noticed, too', async () => {
  const { host, pulls, runId } = await startWithFinishedRun()
  await host.succeeded(host.hostApi.retryRun(runId))
  pulls.pulls.set(URL, 'closed')
  await host.advance(121)
  expect(host.run(runId)).toMatchObject({ prState: 'closed' })
})

test("a run's pull request is read at once", async () => {
  const { host, pulls, runId } = await startWithFinishedRun()
  pulls.pulls.set(URL, 'merged')
  expect(await host.succeeded(host.hostApi.runPull(runId))).toEqual({ url: URL, number: 1, state: 'merged' })
  expect(host.run(runId).prState).toBe('merged')
})

test('a run whose pull request is merged, as nobody has noticed yet, is not retried', async () => {
  const { host, pulls, runId } = await startWithFinishedRun()
  pulls.pulls.set(URL, 'merged')
  expect(await host.settled(host.hostApi.retryRun(runId))).toMatchObject({
    ok: false,
    refusal: { kind: 'conflict', message: expect.stringContaining('is merged already') },
  })
  expect(host.run(runId)).toMatchObject({ status: 'completed', prState: 'merged' })
})

test('a code host that does not answer does not prevent a retry', async () => {
  const { host, pulls, runId } = await startWithFinishedRun()
  pulls.refusal = no('failed', 'GitHub answered 502')
  expect(await host.succeeded(host.hostApi.retryRun(runId))).toMatchObject({ status: 'queued' })
})

test('a pull request that cannot be read is answered with the reason', async () => {
  const { host, pulls, runId } = await startWithFinishedRun()
  expect(await host.settled(host.hostApi.runPull('run-x'))).toMatchObject({ refusal: { kind: 'unknown' } })
  pulls.pulls.clear()
  expect(await host.settled(host.hostApi.runPull(runId))).toMatchObject({ refusal: { kind: 'unknown' } })
  pulls.refusal = no('failed', 'GitHub answered 502')
  expect(await host.settled(host.hostApi.runPull(runId))).toMatchObject({ refusal: { kind: 'invalid' } })
})

test('a run without a pull request has none to show', async () => {
  const { host } = await startWithOpenPull()
  const { runId } = await acceptRun(host)
  expect(await host.settled(host.hostApi.runPull(runId))).toMatchObject({ refusal: { kind: 'unknown' } })
})

test('a merge through the host is in the run at once', async () => {
  const { host, runId } = await startWithFinishedRun({ repos: { web: { remote: 'owner/name' } } })
  expect(await host.succeeded(host.hostApi.mergePull('web', 1, { method: 'squash' }))).toEqual({
    merged: true,
    message: 'merged it',
  })
  await host.settle()
  expect(host.run(runId).prState).toBe('merged')
})

test('a merge through the host is in the run at once, however the repository is spelled in the configuration', async () => {
  const { host, pulls, runId } = await startWithFinishedRun({ repos: { web: { remote: 'Owner/Name' } } })
  pulls.merge = async () => {
    pulls.pulls.set(URL, 'merged')
    return yes('merged it')
  }
  await host.succeeded(host.hostApi.mergePull('web', 1, { method: 'squash' }))
  await host.settle()
  expect(host.run(runId).prState).toBe('merged')
})

// ---- routes --------------------------------------------------------------------------------------------------------

test('a repository that cannot be read is named beside the others', async () => {
  const { host, pulls } = await startWithOpenPull({
    repos: { web: { remote: 'owner/name' }, again: { remote: 'owner/name' }, api: { remote: 'owner/api' } },
  })
  const list = pulls.list.bind(pulls)
  pulls.list = async (remote, urgency) =>
    remote === 'owner/api' ? no('failed', 'GitHub answered 502') : list(remote, urgency)
  expect(await host.succeeded(host.hostApi.pulls())).toMatchObject({
    pulls: [
      { repo: 'web', remote: 'owner/name', number: 1 },
      { repo: 'again', remote: 'owner/name', number: 1 },
    ],
    errors: [{ repo: 'api', remote: 'owner/api', message: 'GitHub answered 502' }],
  })
  expect(pulls.requests).toEqual(['list owner/name person'])
})

test.each<[RefusalKind, RefusalKind]>([
  ['unknown', 'unknown'],
  ['conflict', 'conflict'],
  ['invalid', 'invalid'],
  ['forbidden', 'invalid'],
  ['unauthorized', 'invalid'],
  ['unavailable', 'invalid'],
  ['failed', 'invalid'],
])('what the code host refuses as %s is refused as %s by every route', async (kind, expected) => {
  const { host, pulls } = await startWithOpenPull({ repos: { web: { remote: 'owner/name' } } })
  pulls.refusal = no(kind, 'no')
  const { hostApi } = host
  const all = [
    hostApi.codehostRepos(),
    hostApi.pull('web', 1),
    hostApi.mergePull('web', 1, { method: 'merge' }),
    hostApi.closePull('web', 1),
    hostApi.reopenPull('web', 1),
    hostApi.readyPull('web', 1),
    hostApi.commentPull('web', 1, { body: 'hm' }),
    hostApi.reviewPull('web', 1, { event: 'COMMENT', body: 'hm' }),
    hostApi.replyPull('web', 1, { commentId: '1', body: 'hm' }),
    hostApi.resolveThread('web', 1, { threadId: '1', resolved: true }),
  ]
  for (const answer of await Promise.all(all)) expect(answer).toMatchObject({ refusal: { kind: expected } })
})

test('every pull route first reports that no code host is connected', async () => {
  const host = await plainYarn()
  const { hostApi } = host
  const all = [
    hostApi.codehostRepos(),
    hostApi.pulls(),
    hostApi.pull('nothing', 1),
    hostApi.closePull('nothing', 1),
  ]
  for (const answer of await Promise.all(all))
    expect(answer).toMatchObject({ refusal: { kind: 'invalid', message: 'the code host is not connected' } })
})

test('a key that is not configured is unknown', async () => {
  const { host } = await startWithOpenPull()
  expect(await host.settled(host.hostApi.pull('constructor', 1))).toMatchObject({
    refusal: { kind: 'unknown' },
  })
})

// ---- links ---------------------------------------------------------------------------------------------------------

test('a pull request is linked in its ticket, also when the tracker was unreachable and the host restarted', async () => {
  const { host } = await startWithOpenPull()
  const links: string[] = []
  let isAway = true
  host.tracker.linkPull = async (id, { url }) => {
    if (isAway) return no('unavailable', 'no route to it')
    links.push(`${id} ${url}`)
    return yes(undefined)
  }
  const { connection, work } = await acceptRun(host)
  await connection.send(work.patch({ prUrl: URL, prState: 'open' }))
  await host.advance(10)
  await host.crash()
  isAway = false
  await host.advance(10)
  expect(links).toEqual([`ENG-1 ${URL}`])
  await host.crash()
  await host.advance(60)
  expect(links).toHaveLength(1)
})

test('a link waits for an unreachable tracker however long, and not for one that forbids it', async () => {
  const { host } = await startWithOpenPull()
  const asked: string[] = []
  let isAway = true
  host.tracker.linkPull = async (id) => {
    asked.push(id)
    return isAway ? no('unavailable', 'no route to it') : no('forbidden', 'the key may only read')
  }
  const { connection, work } = await acceptRun(host)
  await connection.send(work.patch({ prUrl: URL, prState: 'open' }))
  await connection.send(work.complete())
  await host.advance(20 * 3_600)
  isAway = false
  const before = asked.length
  await host.advance(8 * 3_600)
  expect(asked).toHaveLength(before + 1)
})

// ---- artifacts -----------------------------------------------------------------------------------------------------

test('artifacts go to the bucket and are linked in the pull request, once', async () => {
  const { host, pulls, bucket, runId } = await startWithFinishedRun({ storage: STORAGE })
  await host.advance(1)
  const folder = `${runId}/${host.run(runId).finishedAt?.replace(/\W/g, '')}`
  expect(bucket.uploads).toEqual([
    `files ${folder}/shot 1.png image/png pixels`,
    `files ${folder}/log.txt text/plain; charset=utf-8 lines`,
  ])
  expect(pulls.comments).toEqual([
    [
      'Left by the run on ENG-1:',
      '',
      `- ![shot 1.png](https://files.example/x/${folder}/shot%201.png)`,
      `- [log.txt](https://files.example/x/${folder}/log.txt)`,
      '',
      `<!-- switchyard:evidence ${folder} -->`,
    ].join('\n'),
  ])
  await host.crash()
  await host.advance(60)
  expect(pulls.comments).toHaveLength(1)
})

test('an unreachable bucket or code host is tried again, and the comment is made once', async () => {
  const scene = await startWithOpenPull({ storage: STORAGE })
  scene.bucket.refusal = no('unavailable', 'the bucket does not answer')
  const { connection, work } = await acceptRun(scene.host)
  await connection.send(work.artifact('a.txt', 'a'))
  await connection.send(
    work.complete({ prUrl: URL, prState: 'open', result: { prUrl: URL, artifacts: ['a.txt'] } }),
  )
  await scene.host.advance(20)
  expect(scene.pulls.comments).toEqual([])
  scene.bucket.refusal = undefined
  const { comment } = scene.pulls
  let isFirst = true
  scene.pulls.comment = async (place, body) => {
    const made = await comment.call(scene.pulls, place, body)
    if (!isFirst) return made
    isFirst = false
    // The comment was made, but its answer was lost.
    return no('failed', 'the line was cut')
  }
  await scene.host.advance(600)
  expect(scene.pulls.comments).toHaveLength(1)
  expect(scene.host.census().artifactUploads).toBe(0)
})

test.each<RefusalKind>(['unavailable', 'unauthorized'])(
  'a code host that is %s for hours costs no evidence, and nothing is uploaded meanwhile',
  async (kind) => {
    const scene = await startWithOpenPull({ storage: STORAGE })
    const { detail } = scene.pulls
    scene.pulls.detail = async () => no(kind, 'come back later')
    const { connection, work } = await acceptRun(scene.host)
    await connection.send(work.artifact('a.txt', 'a'))
    await connection.send(
      work.complete({ prUrl: URL, prState: 'open', result: { prUrl: URL, artifacts: ['a.txt'] } }),
    )
    await scene.host.advance(6 * 3_600)
    expect([scene.bucket.uploads, scene.pulls.comments]).toEqual([[], []])
    scene.pulls.detail = detail.bind(scene.pulls)
    await scene.host.advance(900)
    expect(scene.pulls.comments).toHaveLength(1)
  },
)

test('while a code host refuses the comment for hours, the artifacts are not uploaded again', async () => {
  const scene = await startWithOpenPull({ storage: STORAGE })
  scene.pulls.comment = async () => no('unavailable', 'come back later')
  const { connection, work, runId } = await acceptRun(scene.host)
  await connection.send(work.artifact('a.txt', 'a'))
  await connection.send(
    work.complete({ prUrl: URL, prState: 'open', result: { prUrl: URL, artifacts: ['a.txt'] } }),
  )
  await scene.host.advance(24 * 3_600)
  expect(scene.bucket.uploads).toHaveLength(12)
  expect(await scene.host.events(runId)).toContainEqual(expect.stringMatching(/^system .*: come back later$/))
})

test('a token that was refused is not used again for artifacts', async () => {
  const scene = await startWithOpenPull({ storage: STORAGE })
  // Like the HTTP clients: background work does not use a refused token, a person's request tries it again.
  scene.pulls.states = async () => no('unauthorized', 'the token is dead')
  let shown = 0
  scene.pulls.detail = async () => {
    shown += 1
    return no('unauthorized', 'the token is dead')
  }
  const { connection, work } = await acceptRun(scene.host)
  await connection.send(work.artifact('a.txt', 'a'))
  await connection.send(
    work.complete({ prUrl: URL, prState: 'open', result: { prUrl: URL, artifacts: ['a.txt'] } }),
  )
  await scene.host.advance(6 * 3_600)
  expect(shown).toBe(0)
})

test('uploads to an unreachable bucket stop after a while, and the run’s log names the cause', async () => {
  const scene = await startWithOpenPull({ storage: STORAGE })
  scene.bucket.refusal = no('unavailable', 'the bucket does not answer')
  const { connection, work, runId } = await acceptRun(scene.host)
  await connection.send(work.artifact('a.txt', 'a'))
  await connection.send(
    work.complete({ prUrl: URL, prState: 'open', result: { prUrl: URL, artifacts: ['a.txt'] } }),
  )
  await scene.host.advance(6 * 3_600)
  expect(await scene.host.events(runId)).toContainEqual(
    expect.stringMatching(/^system .*: the bucket does not answer$/),
  )
})

test('without a login to the bucket the run’s log names the cure, and the run completes', async () => {
  const made = await startWithOpenPull({ storage: STORAGE })
  made.bucket.state = { installed: true, loggedIn: false }
  const { connection, work, runId } = await acceptRun(made.host)
  await connection.send(work.artifact('a.txt', 'a'))
  await connection.send(
    work.complete({ prUrl: URL, prState: 'open', result: { prUrl: URL, artifacts: ['a.txt'] } }),
  )
  await made.host.advance(1)
  expect(await made.host.events(runId)).toContainEqual(expect.stringMatching(/^system .*; connect storage$/))
  expect(made.host.run(runId).status).toBe('completed')
})

test('without a bucket in the configuration nothing is uploaded', async () => {
  const { host, bucket, pulls } = await startWithFinishedRun()
  await host.advance(60)
  expect([bucket.uploads, pulls.comments]).toEqual([[], []])
})
