/** The verbs that change a pull request: merge, close, reopen, ready, comment, review. */
import type { MergeRequest, ReviewRequest } from '../../protocol/pulls.ts'
import { refuseConcerns } from '../client/merge-concerns.ts'
import { findPull, formatPull, type PullName } from '../client/pull-names.ts'
import type { ClientOptions, CommandContext } from '../client/run-command.ts'
import { readTextOption } from '../client/text-option.ts'
import { EXIT, ExitError } from '../exit.ts'

export interface MergeOptions extends ClientOptions {
  readonly method: MergeRequest['method']
  /** Merge over what speaks against it. */
  readonly anyway?: true | undefined
}

export interface CommentOptions extends ClientOptions {
  readonly body: string
}

export interface ReviewOptions extends ClientOptions {
  readonly approve?: boolean | undefined
  readonly requestChanges?: boolean | undefined
  readonly comment?: boolean | undefined
  readonly body?: string | undefined
}

export type PlainVerb = 'close' | 'reopen' | 'ready'

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
  throw new ExitError(EXIT.usage, 'a review is one of --approve, --request-changes and --comment')
}

function printDone({ output }: CommandContext, name: PullName, answer: unknown, done: string): void {
  if (output.format === 'json') output.json(answer)
  else
    output.data(
      output.format === 'id' ? formatPull(name) : output.stdout.clean(`${formatPull(name)} ${done}.`),
    )
}
