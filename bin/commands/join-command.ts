/** Prints the command with which another machine becomes a worker, beside the token or the key that was made for it. */
import { joinAddress } from '../../core/fleet/join-address.ts'
import type { CommandContext } from '../client/run-command.ts'

export async function noteJoinCommand(
  { client, connection, output }: CommandContext,
  option: '--token-file' | '--join-key-file',
): Promise<void> {
  const { fleet } = await client.readConfig()
  const { url, isExposed, isHereOnly } = joinAddress(fleet, (await connection.address()).url)
  output.note(`switchyard worker --host ${url}${isExposed ? ' --insecure' : ''} ${option} FILE`)
  if (isHereOnly)
    output.note(
      'Only this machine reaches that address. For others: switchyard config set fleet.host ADDRESS, and restart the host.',
    )
}
