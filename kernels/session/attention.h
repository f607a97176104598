// Softmax(Q K^T * scale + mask) V as one node of a session, worked through in blocks so that the scores are never in memory as a whole.
#pragma once

#include "kernels/runtime/registry.h"

namespace saturate {

// Operator "Attention" of kSessionDomain: Q, K, V, and the mask where there is one. Attributes: `scale`; `axis`, of the softmax; `q`, `k`,
// `v`, `y`: the orders of their dims, "bhsd" (batch, head, sequence, size; of rank 3: bsd), "bshd", or for k "bhds".
void register_session_attention(Registry& registry);

}  // namespace saturate
