/** Prints the command with which another machine becomes a worker, beside the token or the key that was made for it. */
import { type HostMarks, joinCommand } from '../../client/join-address.ts'
import type { CommandContext } from '../client/run-command.ts'

export async function noteJoinCommand(
  { client, connection, output }: CommandContext,
  option: '--token-file' | '--join-key-file',
  marks: HostMarks,
): Promise<void> {
  const { fleet, server } = await client.readConfig()
  const { line, notes } = joinCommand(fleet, (await connection.address()).url, option, {
    serverPort: server.port,
    ...marks,
  })
  output.note(line)
  for (const note of notes) output.note(note)
}
