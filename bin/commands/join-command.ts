/** Prints the command with which another machine becomes a worker, beside the token or the key that was made for it. */
import { joinAddress } from '../../core/fleet/join-address.ts'
import { quoteWord } from '../../protocol/quote-word.ts'
import type { CommandContext } from '../client/run-command.ts'

/** @param fingerprint of the fleet listener's certificate; the machine recognises the host by it */
export async function noteJoinCommand(
  { client, connection, output }: CommandContext,
  option: '--token-file' | '--join-key-file',
  fingerprint: string | undefined,
): Promise<void> {
  const { fleet } = await client.readConfig()
  const { url, isExposed, isHereOnly } = joinAddress(fleet, (await connection.address()).url)
  // Behind a public address another program may show another certificate.
  const isOwn = fingerprint !== undefined && fleet.publicUrl === undefined
  const pin = isOwn ? ['--fingerprint', fingerprint] : []
  const trust = isExposed ? ['--insecure'] : []
  const words = ['switchyard', 'worker', '--host', url, ...trust, option, 'FILE', ...pin]
  output.note(words.map(quoteWord).join(' '))
  if (fingerprint !== undefined && !isOwn)
    output.note(`The certificate of this host has the SHA-256 fingerprint ${fingerprint}.`)
  if (isHereOnly)
    output.note(
      'Only this machine reaches that address. For others: switchyard config set fleet.host ADDRESS, give the host a certificate in fleet.tls, and restart it.',
    )
}
