/** Pairing one machine by a token that is good once: the token, the line to paste, and the worker that came. */

import { signal } from '@preact/signals'
import { type JoinCommand, joinCommand } from '../../../client/join-address.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import type { PairingTokenResponse } from '../../../protocol/worker.ts'
import { Button } from '../../elements/button.tsx'
import { Fact } from '../../elements/fact.tsx'
import { useForgotten } from '../../elements/form.ts'
import { Moment, now } from '../../elements/moments.tsx'
import { Section } from '../../elements/page-head.tsx'
import { PasteLine } from '../../elements/paste-line.tsx'
import { showError } from '../../elements/toasts.ts'
import { formatDuration } from '../../text/times.ts'
import { workerAddress } from '../addresses.ts'
import { host } from '../state/host.ts'
import { config, workers } from '../state/records.ts'
import { askForMachine } from './provision-machine.tsx'

interface Pairing {
  readonly minted: PairingTokenResponse
  /** The workers that were there before. */
  readonly known: ReadonlySet<string>
}

const pairing = signal<Pairing | undefined>(undefined)

/** Makes a token, and shows it at its place. */
export async function showPairing(): Promise<void> {
  try {
    const known = new Set(workers.value.map(({ id }) => id))
    pairing.value = { minted: await host.mintPairingToken(), known }
  } catch (error) {
    showError(error)
    return
  }
  requestAnimationFrame(() => document.getElementById('pair')?.scrollIntoView({ block: 'nearest' }))
}

export function PairWorker() {
  const shown = pairing.value
  // A token is a secret; leaving the page forgets it.
  useForgotten(pairing)
  return (
    <Section
      id="pair"
      title="Pair a worker"
      aside={
        shown !== undefined && (
          <>
            The token works once, until <Moment at={shown.minted.expiresAt} />
          </>
        )
      }
    >
      <div class="card padded">{shown === undefined ? <NoToken /> : <Token pairing={shown} />}</div>
    </Section>
  )
}

const NoToken = () => (
  <div class="pair-choices">
    <p class="quiet">
      A machine joins with a token that works once, with a join key that many machines share, or over SSH,
      where the host sets it up by itself.
    </p>
    <Button act={showPairing} busyWord="Making a token">
      Make a token
    </Button>
    <Button act={askForMachine}>Set up over SSH…</Button>
  </div>
)

/** The command with which a machine joins this host, with the address as the configuration knows it. */
export function hostJoinCommand(
  { fleet, server }: Pick<ServiceConfig, 'fleet' | 'server'>,
  option: Parameters<typeof joinCommand>[2],
  marks: Parameters<typeof joinCommand>[3],
): JoinCommand {
  const name = server.host.includes(':') && !server.host.startsWith('[') ? `[${server.host}]` : server.host
  const url = `http://${name}:${server.port}`
  const { line, notes } = joinCommand(fleet, url, option, marks)
  if (server.port !== 0 || !line.includes(url)) return { line, notes }
  return {
    line: line.replace(url, `http://${name}:PORT`),
    notes: ['PORT is the port of the host, which launch.json in its data directory names.', ...notes],
  }
}

function Token({ pairing: { minted, known } }: { readonly pairing: Pairing }) {
  const { token, expiresAt, fingerprint } = minted
  const joined = workers.value.find(({ id }) => !known.has(id))
  const left = Date.parse(expiresAt) - now.value
  if (config.value === undefined) return null
  const { line, notes } = hostJoinCommand(config.value, '--token-file', minted)
  return (
    <div class="pair-token">
      <ol class="pair-steps">
        <li>
          Write the token into a file on that machine that only you can read.
          <PasteLine text={token} label="the token" />
        </li>
        <li>
          Run this there. It needs bubblewrap and git.
          <PasteLine text={line} label="the line" />
        </li>
        {notes.map((note) => (
          <li class="pair-note quiet" key={note}>
            {note}
          </li>
        ))}
      </ol>
      <dl class="facts pair-facts">
        <Fact name="State">
          {joined !== undefined ? (
            <>
              <a href={workerAddress(joined.id)}>{joined.name}</a> has joined
            </>
          ) : left > 0 ? (
            <>Waiting for a worker, {formatDuration(left)} left</>
          ) : (
            'The token has ended'
          )}
        </Fact>
        {fingerprint !== undefined && (
          <Fact name="Certificate">
            <code class="fingerprint">{fingerprint}</code>
          </Fact>
        )}
        <Fact name="Another">
          <Button kind="link" act={showPairing}>
            Make a new token
          </Button>
        </Fact>
      </dl>
    </div>
  )
}
