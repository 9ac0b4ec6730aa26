/** What follows from a run's pull request: its state is watched, its ticket links it, its evidence is brought to it. */
import { expect, test } from '@jest/globals'
import { no, type RefusalKind, yes } from '../../core/result.ts'
import { HandBucket, HandPulls, handPullUrl } from '../support/manual-code-host.ts'
import { busy, configWith, yarn as plainYarn, type Yarn, Yarn as YarnOf } from './host-conversation.ts'

const URL = handPullUrl('owner/name', 1)
const STORAGE = { bucket: 'files', publicBaseUrl: 'https://files.example/x/' }

async function opened(config: object = {}) {
  const y: Yarn = new YarnOf(configWith(config))
  const pulls = new HandPulls()
  const bucket = new HandBucket()
  y.around = { pulls: () => yes(pulls), bucket }
  await y.start()
  pulls.pulls.set(URL, 'open')
  return { y, pulls, bucket }
}

async function finished(config: object = {}) {
  const made = await opened(config)
  const { wire, work, runId } = await busy(made.y)
  await wire.say(work.patch({ prUrl: URL, prState: 'open' }), work.artifact('shot 1.png', 'pixels'))
  await wire.say(work.artifact('log.txt', 'lines'))
  await wire.say(
    work.complete({
      prUrl: URL,
      prState: 'open',
      result: { prUrl: URL, artifacts: ['shot 1.png', 'log.txt'] },
    }),
  )
  return { ...made, wire, work, runId }
}

// ---- watching ----------------------------------------------------------------------------------------------------

test('a pull request that was merged elsewhere is noticed within two minutes, and told', async () => {
  const { y, pulls, runId } = await finished()
  const pushes = y.watch()
  pulls.pulls.set(URL, 'merged')
  await y.pass(121)
  expect(y.run(runId).prState).toBe('merged')
  expect(pushes.filter(({ type }) => type === 'run-updated')).toMatchObject([
    { run: { id: runId, prState: 'merged' } },
  ])
  pulls.asked = []
  await y.pass(600)
  expect(pulls.asked).toEqual([])
})

test('all runs of a repository are asked about in one question, in the background', async () => {
  const { y, pulls } = await finished()
  pulls.asked = []
  await y.pass(121)
  expect(pulls.asked).toEqual(['states owner/name 1 background'])
})

test('opening a run asks for a person, once however often the page is loaded', async () => {
  const { y, pulls, runId } = await finished()
  pulls.asked = []
  pulls.pulls.set(URL, 'draft')
  for (let times = 0; times < 5; times++) y.desk.run(runId)
  await y.settle()
  expect(pulls.asked).toEqual(['states owner/name 1 person'])
  expect(y.run(runId).prState).toBe('draft')
})

test('a code host that is away leaves everything as it was', async () => {
  const { y, pulls, runId } = await finished()
  pulls.refusal = no('unavailable', 'GitHub wants fewer requests')
  await y.pass(600)
  expect(y.run(runId).prState).toBe('open')
  pulls.refusal = undefined
  pulls.pulls.set(URL, 'closed')
  await y.pass(121)
  expect(y.run(runId).prState).toBe('closed')
})

test('the state of a run that is queued again is noticed, too', async () => {
  const { y, pulls, runId } = await finished()
  await y.done(y.desk.retryRun(runId))
  pulls.pulls.set(URL, 'closed')
  await y.pass(121)
  expect(y.run(runId)).toMatchObject({ prState: 'closed' })
})

test("a run's pull request is asked for right now", async () => {
  const { y, pulls, runId } = await finished()
  pulls.pulls.set(URL, 'merged')
  expect(await y.done(y.desk.runPull(runId))).toEqual({ url: URL, number: 1, state: 'merged' })
  expect(y.run(runId).prState).toBe('merged')
})

test('what cannot be said of it says why', async () => {
  const { y, pulls, runId } = await finished()
  expect(await y.ask(y.desk.runPull('run-x'))).toMatchObject({ refusal: { kind: 'unknown' } })
  pulls.pulls.clear()
  expect(await y.ask(y.desk.runPull(runId))).toMatchObject({ refusal: { kind: 'unknown' } })
  pulls.refusal = no('failed', 'GitHub answered 502')
  expect(await y.ask(y.desk.runPull(runId))).toMatchObject({ refusal: { kind: 'invalid' } })
})

test('a run without a pull request has none to show', async () => {
  const { y } = await opened()
  const { runId } = await busy(y)
  expect(await y.ask(y.desk.runPull(runId))).toMatchObject({ refusal: { kind: 'unknown' } })
})

test('merged here, the run knows it at once', async () => {
  const { y, runId } = await finished({ repos: { web: { remote: 'owner/name' } } })
  expect(await y.done(y.desk.mergePull('web', 1, { method: 'squash' }))).toEqual({
    merged: true,
    message: 'merged it',
  })
  await y.settle()
  expect(y.run(runId).prState).toBe('merged')
})

test('merged here, the run knows it at once, however the repository is spelled in the configuration', async () => {
  const { y, pulls, runId } = await finished({ repos: { web: { remote: 'Owner/Name' } } })
  pulls.merge = async () => {
    pulls.pulls.set(URL, 'merged')
    return yes('merged it')
  }
  await y.done(y.desk.mergePull('web', 1, { method: 'squash' }))
  await y.settle()
  expect(y.run(runId).prState).toBe('merged')
})

// ---- the routes' questions -----------------------------------------------------------------------------------------

test('a repository that cannot be asked is named beside the others', async () => {
  const { y, pulls } = await opened({
    repos: { web: { remote: 'owner/name' }, again: { remote: 'owner/name' }, api: { remote: 'owner/api' } },
  })
  const list = pulls.list.bind(pulls)
  pulls.list = async (remote, urgency) =>
    remote === 'owner/api' ? no('failed', 'GitHub answered 502') : list(remote, urgency)
  expect(await y.done(y.desk.pulls())).toMatchObject({
    pulls: [
      { repo: 'web', remote: 'owner/name', number: 1 },
      { repo: 'again', remote: 'owner/name', number: 1 },
    ],
    errors: [{ repo: 'api', remote: 'owner/api', message: 'GitHub answered 502' }],
  })
  expect(pulls.asked).toEqual(['list owner/name person'])
})

test.each<[RefusalKind, RefusalKind]>([
  ['unknown', 'unknown'],
  ['conflict', 'conflict'],
  ['invalid', 'invalid'],
  ['forbidden', 'invalid'],
  ['unauthorized', 'invalid'],
  ['unavailable', 'invalid'],
  ['failed', 'invalid'],
])('what the code host refuses as %s is told as %s by every route', async (kind, told) => {
  const { y, pulls } = await opened({ repos: { web: { remote: 'owner/name' } } })
  pulls.refusal = no(kind, 'no')
  const { desk } = y
  const all = [
    desk.codehostRepos(),
    desk.pull('web', 1),
    desk.mergePull('web', 1, { method: 'merge' }),
    desk.closePull('web', 1),
    desk.reopenPull('web', 1),
    desk.readyPull('web', 1),
    desk.commentPull('web', 1, { body: 'hm' }),
    desk.reviewPull('web', 1, { event: 'COMMENT', body: 'hm' }),
    desk.replyPull('web', 1, { commentId: '1', body: 'hm' }),
    desk.resolveThread('web', 1, { threadId: '1', resolved: true }),
  ]
  for (const answer of await Promise.all(all)) expect(answer).toMatchObject({ refusal: { kind: told } })
})

test('every pull route says that nothing is connected before it says anything else', async () => {
  const y = await plainYarn()
  const { desk } = y
  const all = [desk.codehostRepos(), desk.pulls(), desk.pull('nothing', 1), desk.closePull('nothing', 1)]
  for (const answer of await Promise.all(all))
    expect(answer).toMatchObject({ refusal: { kind: 'invalid', message: 'the code host is not connected' } })
})

test('a key that is not configured is unknown', async () => {
  const { y } = await opened()
  expect(await y.ask(y.desk.pull('constructor', 1))).toMatchObject({ refusal: { kind: 'unknown' } })
})

// ---- links ---------------------------------------------------------------------------------------------------------

test('a pull request is linked in its ticket, also when the tracker was away and the host was started again', async () => {
  const { y } = await opened()
  const links: string[] = []
  let isAway = true
  y.tracker.linkPull = async (id, { url }) => {
    if (isAway) return no('unavailable', 'no route to it')
    links.push(`${id} ${url}`)
    return yes(undefined)
  }
  const { wire, work } = await busy(y)
  await wire.say(work.patch({ prUrl: URL, prState: 'open' }))
  await y.pass(10)
  await y.crash()
  isAway = false
  await y.pass(10)
  expect(links).toEqual([`ENG-1 ${URL}`])
  await y.crash()
  await y.pass(60)
  expect(links).toHaveLength(1)
})

test('a link waits for a tracker that is away, however long, and not for one that forbids it', async () => {
  const { y } = await opened()
  const asked: string[] = []
  let isAway = true
  y.tracker.linkPull = async (id) => {
    asked.push(id)
    return isAway ? no('unavailable', 'no route to it') : no('forbidden', 'the key may only read')
  }
  const { wire, work } = await busy(y)
  await wire.say(work.patch({ prUrl: URL, prState: 'open' }))
  await wire.say(work.complete())
  await y.pass(60 * 3_600)
  isAway = false
  const before = asked.length
  await y.pass(24 * 3_600)
  expect(asked).toHaveLength(before + 1)
})

// ---- evidence ------------------------------------------------------------------------------------------------------

test('artifacts go to the bucket and are linked in the pull request, once', async () => {
  const { y, pulls, bucket, runId } = await finished({ storage: STORAGE })
  await y.pass(1)
  const folder = `${runId}/${y.run(runId).finishedAt?.replace(/\W/g, '')}`
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
  await y.crash()
  await y.pass(60)
  expect(pulls.comments).toHaveLength(1)
})

test('a bucket or a code host that is away is asked again, and the comment is made once', async () => {
  const other = await opened({ storage: STORAGE })
  other.bucket.refusal = no('unavailable', 'the bucket does not answer')
  const { wire, work } = await busy(other.y)
  await wire.say(work.artifact('a.txt', 'a'))
  await wire.say(work.complete({ prUrl: URL, prState: 'open', result: { prUrl: URL, artifacts: ['a.txt'] } }))
  await other.y.pass(20)
  expect(other.pulls.comments).toEqual([])
  other.bucket.refusal = undefined
  const { comment } = other.pulls
  let isFirst = true
  other.pulls.comment = async (place, body) => {
    const made = await comment.call(other.pulls, place, body)
    if (!isFirst) return made
    isFirst = false
    // It came through, and nobody heard of it.
    return no('failed', 'the line was cut')
  }
  await other.y.pass(600)
  expect(other.pulls.comments).toHaveLength(1)
  expect(other.y.census().evidence).toBe(0)
})

test.each<RefusalKind>(['unavailable', 'unauthorized'])(
  'a code host that is %s for hours costs no evidence, and nothing is uploaded meanwhile',
  async (kind) => {
    const other = await opened({ storage: STORAGE })
    const { detail } = other.pulls
    other.pulls.detail = async () => no(kind, 'come back later')
    const { wire, work } = await busy(other.y)
    await wire.say(work.artifact('a.txt', 'a'))
    await wire.say(
      work.complete({ prUrl: URL, prState: 'open', result: { prUrl: URL, artifacts: ['a.txt'] } }),
    )
    await other.y.pass(6 * 3_600)
    expect([other.bucket.uploads, other.pulls.comments]).toEqual([[], []])
    other.pulls.detail = detail.bind(other.pulls)
    await other.y.pass(900)
    expect(other.pulls.comments).toHaveLength(1)
  },
)

test('a code host that takes no comment for hours does not have everything uploaded again for as long', async () => {
  const other = await opened({ storage: STORAGE })
  other.pulls.comment = async () => no('unavailable', 'come back later')
  const { wire, work, runId } = await busy(other.y)
  await wire.say(work.artifact('a.txt', 'a'))
  await wire.say(work.complete({ prUrl: URL, prState: 'open', result: { prUrl: URL, artifacts: ['a.txt'] } }))
  await other.y.pass(24 * 3_600)
  expect(other.bucket.uploads).toHaveLength(12)
  expect(await other.y.events(runId)).toContain('system its artifacts are not in the bucket: come back later')
})

test('a token that is known not to be taken is not shown again for evidence', async () => {
  const other = await opened({ storage: STORAGE })
  // As the couriers do it: in the background nobody is asked with such a token, for a person it is tried anew.
  other.pulls.states = async () => no('unauthorized', 'the token is dead')
  let shown = 0
  other.pulls.detail = async () => {
    shown += 1
    return no('unauthorized', 'the token is dead')
  }
  const { wire, work } = await busy(other.y)
  await wire.say(work.artifact('a.txt', 'a'))
  await wire.say(work.complete({ prUrl: URL, prState: 'open', result: { prUrl: URL, artifacts: ['a.txt'] } }))
  await other.y.pass(6 * 3_600)
  expect(shown).toBe(0)
})

test('a bucket that stays away is given up after a while, and the run says so', async () => {
  const other = await opened({ storage: STORAGE })
  other.bucket.refusal = no('unavailable', 'the bucket does not answer')
  const { wire, work, runId } = await busy(other.y)
  await wire.say(work.artifact('a.txt', 'a'))
  await wire.say(work.complete({ prUrl: URL, prState: 'open', result: { prUrl: URL, artifacts: ['a.txt'] } }))
  await other.y.pass(6 * 3_600)
  expect(await other.y.events(runId)).toContain(
    'system its artifacts are not in the bucket: the bucket does not answer',
  )
})

test('nobody logged in to the bucket: the run says so, and nothing else suffers', async () => {
  const made = await opened({ storage: STORAGE })
  made.bucket.is = { installed: true, loggedIn: false }
  const { wire, work, runId } = await busy(made.y)
  await wire.say(work.artifact('a.txt', 'a'))
  await wire.say(work.complete({ prUrl: URL, prState: 'open', result: { prUrl: URL, artifacts: ['a.txt'] } }))
  await made.y.pass(1)
  expect(await made.y.events(runId)).toContain(
    'system its artifacts are not in the bucket: nobody is logged in to the bucket; connect storage',
  )
  expect(made.y.run(runId).status).toBe('completed')
})

test('without a bucket in the configuration nothing is uploaded', async () => {
  const { y, bucket, pulls } = await finished()
  await y.pass(60)
  expect([bucket.uploads, pulls.comments]).toEqual([[], []])
})
