/** `switchyard pulls reply` and `pulls resolve`: a review thread, named by its file and line or by its id. */
import type { PullDetail, PullThread } from '../../protocol/pulls.ts'
import { findPull, formatPull } from '../client/pull-names.ts'
import type { ClientOptions, CommandContext } from '../client/run-command.ts'
import { readTextOption } from '../client/text-option.ts'
import { EXIT, ExitError } from '../exit.ts'
import { describeThread, placeOf } from './pull-lines.ts'

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
    throw new ExitError(EXIT.refused, `${placeOf(thread)} of ${formatPull(name)} has no comment to answer`)
  const body = await readTextOption(options.body, '--body')
  const answer = await client.replyPull({ ...name, body: { commentId: first.id, body } })
  if (output.format === 'json') output.json(answer)
  else if (output.format === 'id') output.data(thread.id)
  else output.data(output.stdout.clean(`${placeOf(thread)} of ${formatPull(name)} has your reply.`))
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
  if (output.format === 'json') output.json(answer)
  else if (output.format === 'id') output.data(thread.id)
  else {
    const done = resolved ? 'is resolved' : 'is open again'
    output.data(output.stdout.clean(`${placeOf(thread)} of ${formatPull(name)} ${done}.`))
  }
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
    throw new ExitError(
      EXIT.refused,
      `${formatPull(pull)} has no thread ${asked}`,
      `switchyard pulls show ${place}`,
    )
  if (others.length === 0) return thread
  throw new ExitError(
    EXIT.usage,
    `${asked} may be ${fitting.map((each) => `${each.id} (${describeThread(each)})`).join(' or ')}`,
    `switchyard pulls ${verb} ${place} --thread ${thread.id}`,
  )
}
