// Whose libraries engine and tensor are built with: only the consumer's come with these
// definitions.
#include "tessera/engine/engine.h"
#include "tessera/tensor/tblob.h"

#if !defined(CONSUMERS_ABSEIL) || !defined(CONSUMERS_EIGEN) || !defined(CONSUMERS_TBB)
#error "Tessera took another Abseil, Eigen or TBB than the consumer's"
#endif

tessera::Engine* ConsumersEngine() { return tessera::Engine::Get(); }
tessera::TBlob ConsumersBlob() { return {}; }
