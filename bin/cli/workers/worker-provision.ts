/**
 * `switchyard workers provision USER@HOST`: sets up a machine as a worker over SSH, and prints each step as it begins and
 * ends.
 *
 * The host does the work and goes on when this command is interrupted.
 */
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { DashboardFeed } from '../../../client/dashboard-feed.ts'
import { HostRefusal } from '../../../client/errors.ts'
import { formatStep, stepHeading } from '../../../core/provision/step-lines.ts'
import { PROVISION_ANSWER_MS_MAX } from '../../../protocol/limits.ts'
import type { ProvisionPush, ProvisionRequest } from '../../../protocol/provision.ts'
import { ProgressLine } from '../../output/progress-line.ts'
import { usageError } from '../../process/exit.ts'
import { whileWatching } from '../../process/watching.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'

export interface ProvisionOptions extends ClientOptions {
  readonly port?: number | undefined
  readonly identityFile?: string | undefined
  readonly name?: string | undefined
  readonly concurrency?: number | undefined
  readonly hostKeySha256?: string | undefined
}

/** How long the last step's message may arrive after the answer. */
const LAST_STEP_MS_MAX = 500

export async function provision(
  context: CommandContext<ProvisionOptions>,
  target: string,
): Promise<number | undefined> {
  const body = readRequest(target, context.options)
  const { client, output } = context
  const steps = new StepPrinter(context, body)
  return await whileWatching(context, `the provisioning of ${body.host} goes on`, async (signal) => {
    try {
      await steps.open(signal)
      const answer = await client.provisionWorker({ body }, { signal, timeoutMs: PROVISION_ANSWER_MS_MAX })
      if (output.format === 'json') output.json(answer)
      steps.printRest(answer.output)
      const name = body.name ?? body.host
      if (output.format === 'id') output.data(name)
      if (output.format === 'table')
        output.data(output.stdout.clean(`${name} is online with ${slots(body.concurrency ?? 2)}.`))
      return undefined
    } catch (error) {
      // A wrong request is refused before the first step.
      if (error instanceof HostRefusal && error.status !== 400) await steps.waitForFailure(signal)
      throw error
    } finally {
      steps.close()
    }
  })
}

const slots = (count: number): string => (count === 1 ? '1 slot' : `${count} slots`)

function readRequest(target: string, options: ProvisionOptions): ProvisionRequest {
  const at = target.lastIndexOf('@')
  const [user, host] = [target.slice(0, Math.max(at, 0)), target.slice(at + 1)]
  if (user === '' || host === '')
    throw usageError(`${target} names no user and machine`, 'switchyard workers provision USER@HOST')
  const { port, identityFile, name, concurrency, hostKeySha256 } = options
  return {
    user,
    host,
    ...(port === undefined ? {} : { port }),
    ...(identityFile === undefined ? {} : { identityFile: absolutePath(identityFile) }),
    ...(name === undefined ? {} : { name }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(hostKeySha256 === undefined ? {} : { hostKeySha256 }),
  }
}

/** The host has another working directory. */
const absolutePath = (path: string): string =>
  path.startsWith('~/') ? join(homedir(), path.slice(2)) : resolve(path)

/** Prints the steps of one target, which the host sends to all dashboards. */
class StepPrinter {
  readonly #context: CommandContext<ProvisionOptions>
  readonly #id: string
  readonly #progress: ProgressLine
  #feed: DashboardFeed | undefined
  #printed = 0
  #onFailure: () => void = () => {}
  #hasFailed = false

  constructor(context: CommandContext<ProvisionOptions>, { user, host, port = 22 }: ProvisionRequest) {
    const bare = host.replace(/^\[(.*)\]$/, '$1')
    this.#context = context
    this.#id = `${user}@${bare.includes(':') ? `[${bare}]` : bare}${port === 22 ? '' : `:${port}`}`
    this.#progress = new ProgressLine(context.output, process.env)
  }

  /** Resolves when the host's messages arrive. */
  open(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
      this.#feed = new DashboardFeed(this.#context.connection, {
        onFrame: (frame) => {
          if (frame.type === 'hello') resolve()
          else if (frame.type === 'provision' && frame.id === this.#id) this.#onStep(frame)
        },
        onEnd: reject,
      })
    })
  }

  close(): void {
    this.#progress.finish()
    this.#feed?.close()
  }

  /** Prints the steps that did not arrive, because the connection was lost meanwhile. */
  printRest(lines: string): void {
    for (const line of lines
      .split('\n')
      .filter((each) => each !== '')
      .slice(this.#printed))
      this.#print(line)
  }

  /** The answer may overtake the message about the step that failed. */
  async waitForFailure(signal: AbortSignal): Promise<void> {
    if (this.#hasFailed || signal.aborted) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, LAST_STEP_MS_MAX)
      this.#onFailure = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  #onStep(push: ProvisionPush): void {
    const { status, number, count, step } = push
    if (status === 'running') {
      this.#progress.begin(stepHeading({ step, number, count }))
      return
    }
    this.#print(formatStep({ ...push, status }))
    if (status !== 'failed') return
    this.#hasFailed = true
    this.#onFailure()
  }

  #print(line: string): void {
    const { stderr } = this.#context.output
    this.#printed += 1
    const text = stderr.clean(line)
    this.#progress.finish(
      text.replace(/^(\d\/\d \w+ +)fail/, (_, head: string) => `${head}${stderr.colors.failure('fail')}`),
    )
  }
}
