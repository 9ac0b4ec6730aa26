/** The verbs that change a pull request: merge, close, reopen, ready, comment, review, reply, resolve. */
import type { MergeRequest, PullDetail, PullThread, ReviewRequest } from '../../../protocol/pulls.ts'
import { refusedError, usageError } from '../../process/exit.ts'
import { readTextOption } from '../../process/parse-option.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'
import { describeThread, placeOf } from './pull-lines.ts'
import { findPull, formatPull, type PullName, refuseConcerns } from './pull-names.ts'

export interface MergeOptions extends ClientOptions {
  readonly method: MergeRequest['method']
  /** Merge over what speaks against it. */
  readonly anyway?: true | undefined
}

interface CommentOptions extends ClientOptions {
  readonly body: string
}

export interface ReviewOptions extends ClientOptions {
  readonly approve?: boolean | undefined
  readonly requestChanges?: boolean | undefined
  readonly comment?: boolean | undefined
  readonly body?: string | undefined
}

type PlainVerb = 'close' | 'reopen' | 'ready'

const DONE: Readonly<Record<PlainVerb, string>> = {
  close: 'is closed',
  reopen: 'is open again',
  ready: 'is ready for review',
}

export async function merge(context: CommandContext<MergeOptions>, words: readonly string[]): Promise<void> {
  const { client, options, output } = context
  const name = await findPull(client, words)
  if (options.anyway !== true) await refuseConcerns(client, name, (text) => output.stderr.clean(text))
  const answer = await client.mergePull({ ...name, body: { method: options.method } })
  printDone(context, name, answer, 'is merged')
}

export async function change(
  context: CommandContext,
  verb: PlainVerb,
  words: readonly string[],
): Promise<void> {
  const { client } = context
  const name = await findPull(client, words)
  const call = { close: client.closePull, reopen: client.reopenPull, ready: client.readyPull }[verb]
  printDone(context, name, await call(name), DONE[verb])
}

export async function comment(
  context: CommandContext<CommentOptions>,
  words: readonly string[],
): Promise<void> {
  const { client, options } = context
  const name = await findPull(client, words)
  const body = await readTextOption(options.body, '--body')
  printDone(context, name, await client.commentPull({ ...name, body: { body } }), 'has your comment')
}

export async function review(
  context: CommandContext<ReviewOptions>,
  words: readonly string[],
): Promise<void> {
  const { client, options } = context
  const event = eventOf(options)
  const name = await findPull(client, words)
  const body = options.body === undefined ? '' : await readTextOption(options.body, '--body')
  printDone(context, name, await client.reviewPull({ ...name, body: { event, body } }), 'has your review')
}

function eventOf({ approve, requestChanges, comment }: ReviewOptions): ReviewRequest['event'] {
  const chosen: readonly (ReviewRequest['event'] | undefined)[] = [
    approve === true ? 'APPROVE' : undefined,
    requestChanges === true ? 'REQUEST_CHANGES' : undefined,
    comment === true ? 'COMMENT' : undefined,
  ]
  const [event, ...others] = chosen.filter((each) => each !== undefined)
  if (event !== undefined && others.length === 0) return event
  throw usageError('a review is one of --approve, --request-changes and --comment')
}

function printDone({ output }: CommandContext, name: PullName, answer: unknown, done: string): void {
  output.outcome(answer, formatPull(name), `${formatPull(name)} ${done}.`)
}

// ---- threads -------------------------------------------------------------------------------------------------------

export interface ReplyOptions extends ClientOptions {
  readonly thread: string
  readonly body: string
}

export interface ResolveOptions extends ClientOptions {
  readonly thread: string
  readonly reopen?: boolean | undefined
}

export async function reply(context: CommandContext<ReplyOptions>, words: readonly string[]): Promise<void> {
  const { client, options, output } = context
  const name = await findPull(client, words)
  const pull = await client.readPull(name)
  const thread = findThread(pull, options.thread, 'reply')
  const [first] = thread.comments
  if (first === undefined)
    throw refusedError(`${placeOf(thread)} of ${formatPull(name)} has no comment to answer`)
  const body = await readTextOption(options.body, '--body')
  const answer = await client.replyPull({ ...name, body: { commentId: first.id, body } })
  output.outcome(answer, thread.id, `${placeOf(thread)} of ${formatPull(name)} has your reply.`)
}

export async function resolve(
  context: CommandContext<ResolveOptions>,
  words: readonly string[],
): Promise<void> {
  const { client, options, output } = context
  const name = await findPull(client, words)
  const thread = findThread(await client.readPull(name), options.thread, 'resolve')
  const resolved = options.reopen !== true
  const answer = await client.resolvePullThread({ ...name, body: { threadId: thread.id, resolved } })
  const done = resolved ? 'is resolved' : 'is open again'
  output.outcome(answer, thread.id, `${placeOf(thread)} of ${formatPull(name)} ${done}.`)
}

/** @param verb for the command that names one of several */
function findThread(pull: PullDetail, asked: string, verb: 'reply' | 'resolve'): PullThread {
  const { threads } = pull.conversation
  const byId = threads.find(({ id }) => id === asked)
  if (byId !== undefined) return byId
  const fitting = threads.filter((thread) => placeOf(thread) === asked || thread.path === asked)
  const [thread, ...others] = fitting
  const place = `${pull.repo} ${pull.number}`
  if (thread === undefined)
    throw refusedError(`${formatPull(pull)} has no thread ${asked}`, `switchyard pulls show ${place}`)
  if (others.length === 0) return thread
  throw usageError(
    `${asked} may be ${fitting.map((each) => `${each.id} (${describeThread(each)})`).join(' or ')}`,
    `switchyard pulls ${verb} ${place} --thread ${thread.id}`,
  )
}
