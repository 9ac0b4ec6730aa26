/** The noun `pulls`. A pull request is `REPO NUMBER`, `REPO#NUMBER`, or the ticket whose newest run opened it. */
import { Option } from '@commander-js/extra-typings'
import { runCommand } from '../client/run-command.ts'
import { clientCommand } from './client-options.ts'

export const pullsCommand = () =>
  clientCommand('pulls', 'What comes out')
    .argument('[pull...]', 'one pull request: REPO NUMBER, or its ticket')
    .action((names, options) =>
      runCommand(options, async (context) => {
        if (names.length > 0) await (await import('../commands/pulls.ts')).show(context, names)
        else await (await import('../commands/pulls.ts')).list(context)
      }),
    )
    .addCommand(listVerb())
    .addCommand(showVerb())
    .addCommand(diffVerb())
    .addCommand(checksVerb())
    .addCommand(openVerb())
    .addCommand(mergeVerb())
    .addCommand(plainVerb('close', 'Close it without merging'))
    .addCommand(plainVerb('reopen', 'Open it again'))
    .addCommand(plainVerb('ready', 'Take it out of draft'))
    .addCommand(commentVerb())
    .addCommand(reviewVerb())
    .addCommand(replyVerb())
    .addCommand(resolveVerb())

const PULL = '<pull...>'
const PULL_HELP = 'REPO NUMBER, or its ticket'

const listVerb = () =>
  clientCommand('list', 'Pull requests of all repositories')
    .option('--repo <key>', 'only those of one repository')
    .addOption(new Option('--state <state>', 'only these').choices(['open', 'draft', 'merged', 'closed']))
    .action((options) =>
      runCommand(options, async (context) => (await import('../commands/pulls.ts')).list(context)),
    )

const showVerb = () =>
  clientCommand('show', 'One pull request')
    .argument(PULL, PULL_HELP)
    .action((names, options) =>
      runCommand(options, async (context) => (await import('../commands/pulls.ts')).show(context, names)),
    )

const diffVerb = () =>
  clientCommand('diff', 'Its changes')
    .argument(PULL, PULL_HELP)
    .action((names, options) =>
      runCommand(options, async (context) => (await import('../commands/pulls.ts')).diff(context, names)),
    )

const checksVerb = () =>
  clientCommand('checks', 'Its checks')
    .argument(PULL, PULL_HELP)
    .action((names, options) =>
      runCommand(options, async (context) => (await import('../commands/pulls.ts')).checks(context, names)),
    )

const openVerb = () =>
  clientCommand('open', 'Open it in a browser')
    .argument(PULL, PULL_HELP)
    .action((names, options) =>
      runCommand(options, async (context) => (await import('../commands/pulls.ts')).open(context, names)),
    )

const mergeVerb = () =>
  clientCommand('merge', 'Merge it')
    .argument(PULL, PULL_HELP)
    .addOption(
      new Option('--method <method>', 'how commits are joined')
        .choices(['merge', 'squash', 'rebase'])
        .default('merge' as const),
    )
    .option('--anyway', 'also over checks that are red or pending, and what people asked for')
    .action((names, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/pull-actions.ts')).merge(context, names),
      ),
    )

const plainVerb = (verb: 'close' | 'reopen' | 'ready', summary: string) =>
  clientCommand(verb, summary)
    .argument(PULL, PULL_HELP)
    .action((names, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/pull-actions.ts')).change(context, verb, names),
      ),
    )

const commentVerb = () =>
  clientCommand('comment', 'Comment on it')
    .argument(PULL, PULL_HELP)
    .requiredOption('--body <text>', 'the comment; - reads standard input')
    .action((names, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/pull-actions.ts')).comment(context, names),
      ),
    )

const reviewVerb = () =>
  clientCommand('review', 'Review it')
    .argument(PULL, PULL_HELP)
    .option('--approve', 'approve it')
    .option('--request-changes', 'ask for changes')
    .option('--comment', 'neither')
    .option('--body <text>', 'the words of the review; - reads standard input')
    .action((names, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/pull-actions.ts')).review(context, names),
      ),
    )

const THREAD_HELP = 'FILE:LINE as pulls show prints it, or its id'

const replyVerb = () =>
  clientCommand('reply', 'Answer one of its review threads')
    .argument(PULL, PULL_HELP)
    .requiredOption('--thread <thread>', THREAD_HELP)
    .requiredOption('--body <text>', 'the answer; - reads standard input')
    .action((names, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/pull-threads.ts')).reply(context, names),
      ),
    )

const resolveVerb = () =>
  clientCommand('resolve', 'Mark one of its review threads resolved')
    .argument(PULL, PULL_HELP)
    .requiredOption('--thread <thread>', THREAD_HELP)
    .option('--reopen', 'mark it open again')
    .action((names, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/pull-threads.ts')).resolve(context, names),
      ),
    )
