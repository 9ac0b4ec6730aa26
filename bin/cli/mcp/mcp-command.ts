/**
 * The command `mcp`, a program of its own; `mcp.ts` is the place to begin.
 *
 * `session.ts` has the protocol, `*-tools.ts` and `call-tool.ts` what the tools do. Their schemas are in `protocol/`.
 */
import { Command } from '@commander-js/extra-typings'

export const mcpCommand = () =>
  new Command('mcp')
    .exitOverride()
    .description('Serve tools to an agent in an editor, by the Model Context Protocol over standard input')
    .option('--data-dir <path>', 'whose host is asked')
    .option('--write', 'also offer tools that change something')
    .option('--merge', 'also offer to merge pull requests')
    .option('--instruct', 'let calls speak to the agents of runs as the operator does')
    .action(async (options) => {
      const { mcp } = await import('./mcp.ts')
      await mcp(options)
    })
