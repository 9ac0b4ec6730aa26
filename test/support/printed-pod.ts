/** The container and the trigger that `switchyard deploy kubernetes --print` prints, for tests that start them. */
import type { Deployment } from '../../bin/cli/deploy/deployment.ts'
import { kubernetesDocuments } from '../../bin/cli/deploy/documents.ts'

export interface PrintedPod {
  readonly args: readonly string[]
  /** The command of the readiness probe. */
  readonly probe: readonly string[]
  /** The command that the kubelet runs before it stops the container. */
  readonly preStop: readonly string[]
  /** Where KEDA reads how many workers are wanted. */
  readonly demandUrl: string
}

interface PrintedContainer {
  readonly args: readonly string[]
  readonly readinessProbe: { readonly exec: { readonly command: readonly string[] } }
  readonly lifecycle?: { readonly preStop: { readonly exec: { readonly command: readonly string[] } } }
}

interface PrintedDocument {
  readonly kind: string
  readonly spec: {
    readonly jobTargetRef?: { readonly template: PrintedTemplate }
    readonly template?: PrintedTemplate
    readonly triggers?: readonly { readonly metadata: { readonly url: string } }[]
  }
}
interface PrintedTemplate {
  readonly spec: { readonly containers: readonly PrintedContainer[] }
}

export function printPod(deployment: Deployment): PrintedPod {
  const documents = kubernetesDocuments(deployment) as readonly unknown[] as readonly PrintedDocument[]
  const templates = documents.map(({ spec }) => spec?.jobTargetRef?.template ?? spec?.template)
  const [container] = templates.flatMap((template) => template?.spec.containers ?? [])
  const [trigger] = documents.flatMap(({ spec }) => spec?.triggers ?? [])
  if (container === undefined || trigger === undefined)
    throw new Error('no container or no trigger is printed')
  return {
    args: container.args,
    probe: container.readinessProbe.exec.command,
    preStop: container.lifecycle?.preStop.exec.command ?? [],
    demandUrl: trigger.metadata.url,
  }
}
